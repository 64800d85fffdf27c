"""Every way an operation can fail, and whether trying again is safe and of use.

LakeProviderError
├── InvalidSpecError         an argument of the author is refused before Spark starts
├── InvalidConnectionError   the connection cannot describe a catalog
├── BadInputError            the data cannot be applied as it is: NULL keys, unparsable rows, missing columns
├── AuditFailedError         an assertion of the author does not hold for the batch
├── MissingTableError        the table is not in the catalog
├── UnsupportedError         the table or the engine cannot do what was asked
├── AccessDeniedError        a file, store, database or table may not be read or written by the user that tried
├── BrokenMetadataError      the table's metadata contradicts itself or cannot be read
├── RolledBackError          the table was rolled back behind a position it says it consumed
├── ForgottenRunError        it can no longer be told whether this run was applied
├── RangeUnavailableError    the start of a range of changes is gone
├── CommitConflictError      another writer won every attempt; nothing changed
├── UnknownOutcomeError      a commit was sent and its answer was lost; the retry finds out
├── BrokenInvariantError     a commit of maintenance changed, or would change, what it must leave as it is
├── CatalogUnavailableError  the catalog did not answer
└── JobFailedError           the Spark job ended in a way that nothing above describes
"""

from __future__ import annotations

from datetime import timedelta


class LakeProviderError(Exception):
    """Root of all errors of this package.

    ``retry_is_safe``: repeating the task cannot apply anything twice.
    ``retry_may_help``: repeating it unchanged can succeed. Where it cannot, the task fails without a retry.
    ``retry_after``: how long an operator waits for its retry where the author says nothing; None for Airflow's delay.
    """

    retry_is_safe: bool = True
    retry_may_help: bool = False
    retry_after: timedelta | None = None


class InvalidSpecError(LakeProviderError, ValueError):
    """An argument is malformed or contradicts another one; found before Spark starts."""


class InvalidConnectionError(LakeProviderError, ValueError):
    """The connection is missing, or its properties are unknown, incomplete or contradictory."""


class BadInputError(LakeProviderError):
    """The batch cannot be applied as it is, and nothing of it was."""


class AuditFailedError(LakeProviderError):
    """Rows offend an assertion of the author; the batch is on a branch and main is as it was."""


class MissingTableError(LakeProviderError):
    """The table does not exist; a retry helps once somebody has created it."""

    retry_may_help = True


class UnsupportedError(LakeProviderError):
    """The table's format, version or the installed engine cannot do what was asked."""


class AccessDeniedError(LakeProviderError):
    """A file, a store, a database or a catalog refused what the task's user tried; somebody has to grant it."""


class BrokenMetadataError(LakeProviderError):
    """The table's metadata contradicts itself, is larger than allowed, or cannot be read; a person has to look."""


class RolledBackError(LakeProviderError):
    """Main was rolled back behind the table's position of a source."""


class ForgottenRunError(LakeProviderError):
    """A retry whose run key is older than the oldest the table remembers; applying it might apply it twice."""


class RangeUnavailableError(LakeProviderError):
    """The first snapshot of a range of changes was expired or cannot be read."""


class CommitConflictError(LakeProviderError):
    """Other writers committed first, each time; this commit was refused and nothing changed."""

    retry_may_help = True
    retry_after = timedelta(minutes=1)


class UnknownOutcomeError(LakeProviderError):
    """It is not known whether a commit was made. A retry is safe: it looks for the run key first."""

    retry_may_help = True
    retry_after = timedelta(minutes=2)


class BrokenInvariantError(LakeProviderError):
    """Maintenance changed rows or refs, or would; a person has to look before anything runs again."""

    retry_is_safe = False


class CatalogUnavailableError(LakeProviderError):
    """The catalog could not be reached or did not answer in time."""

    retry_may_help = True
    retry_after = timedelta(minutes=10)


class JobFailedError(LakeProviderError):
    """The Spark job failed for a reason of its own: code, memory, cluster."""

    retry_may_help = True


def error_class(name: str) -> type[LakeProviderError]:
    """Return the class that a report names; a name this version does not know is a JobFailedError.

    :param name: class name as written by the driver.
    """
    classes = {cls.__name__: cls for cls in LakeProviderError.__subclasses__()}
    return classes.get(name, JobFailedError)
