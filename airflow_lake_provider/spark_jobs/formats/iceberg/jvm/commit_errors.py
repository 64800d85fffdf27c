"""Classify an error of a commit in Iceberg's terms: refused, of unknown outcome, or neither."""

from __future__ import annotations

import re

from airflow_lake_provider.spark_jobs.jvm.java_errors import java_exceptions, java_messages, java_names

_CONFLICTS = frozenset({"CommitFailedException", "ValidationException"})
# What a commit says, as an IllegalArgumentException, when its base was rolled back or expired, and when the table was
# upgraded from format version 2 since its position deletes were written.
_OUTDATED = ("is not an ancestor of", "Must use DVs for position deletes")
_ICEBERG = "org.apache.iceberg."
_UNKNOWN = frozenset({"CommitStateUnknownException"})

# Methods of ``TableOperations`` that send a commit, and those of Iceberg that run within them before it is sent.
_SENDING = frozenset({"commit", "doCommit"})
_BEFORE_SENDING = frozenset({"writeNewMetadata", "writeNewMetadataIfRequired", "loadTable", "loadHmsTable"})
_BEFORE_SENDING |= {"getGlueTable"}
# Answers of a REST catalog, and of a database, that a commit was not made.
_REFUSALS = frozenset(
    {
        *("BadRequestException", "ForbiddenException", "NotAuthorizedException", "UnprocessableEntityException"),
        *("NoSuchTableException", "NoSuchNamespaceException", "AlreadyExistsException"),
    }
)
# Classes of SQLSTATE: data, constraints, read-only, credentials, rolled back, access, resources. Of a connection none.
_REFUSING_STATES = ("22", "23", "25", "28", "40", "42", "44", "53")
_OF_SQL = ("SQLException", "SQLSyntaxErrorException", "SQLNonTransientException", "SQLTransactionRollbackException")
_REFUSING_CODES = re.compile(r"\[SQLITE_(?:FULL|READONLY|BUSY|LOCKED|CONSTRAINT|PERM|AUTH|CANTOPEN)")


def is_unsent(error: Exception) -> bool:
    """Tell whether a commit failed before anything of it was sent to the catalog."""
    return not _is_called_unknown(error) and _is_of(error, _BEFORE_SENDING)


def _is_of(error: Exception, methods: frozenset[str], kind: str = "") -> bool:
    """Tell whether an error comes from a method of Iceberg, of classes whose names end in a way."""
    return any(
        str(frame.getMethodName()) in methods
        and str(frame.getClassName()).startswith(_ICEBERG)
        and str(frame.getClassName()).endswith(kind)
        for java in java_exceptions(error)
        for frame in java.getStackTrace()
    )


def is_refused(error: Exception) -> bool:
    """Tell whether the catalog answered that it did not make the commit, for another reason than another commit."""
    if _is_called_unknown(error):
        return False
    for java in java_exceptions(error):
        name, message = str(java.getClass().getSimpleName()), str(java.getMessage())
        if name in _REFUSALS or _REFUSING_CODES.search(message):
            return True
        # Iceberg's own of that name has no state.
        is_of_sql = name.endswith(_OF_SQL) and name != "UncheckedSQLException"
        if is_of_sql and str(java.getSQLState()).startswith(_REFUSING_STATES):
            return True
    return False


def is_conflict(error: Exception) -> bool:
    """Tell whether Iceberg refused the commit because of another one; nothing changed."""
    return conflict_message(error) is not None


def conflict_message(error: Exception) -> str | None:
    """Return what Iceberg said when another commit was in the way; None when the error is of another kind."""
    if _is_called_unknown(error):
        return None
    for name, message in java_messages(error):
        if name in _CONFLICTS or any(words in message for words in _OUTDATED):
            return message
    return None


def is_unknown(error: Exception) -> bool:
    """Tell whether the commit was sent and its answer was lost, whatever the catalog's client calls that.

    Those of databases and of REST catalogs call a connection that broke as they call any other failure.
    """
    if _is_called_unknown(error):
        return True
    is_answered = is_unsent(error) or is_refused(error) or is_conflict(error)
    return not is_answered and _is_of(error, _SENDING, "TableOperations")


def _is_called_unknown(error: Exception) -> bool:
    return not _UNKNOWN.isdisjoint(java_names(error))


def root_message(error: Exception) -> str:
    """Return the innermost cause that says something as ``Class: message``."""
    messages = java_messages(error)
    name, message = next((each for each in reversed(messages) if each[1] != "None"), messages[-1])
    return f"{name}: {message}"


def messages_with_path(error: Exception) -> str:
    """Return the messages of the causes that name a file, or the innermost one where none does.

    Of an executor's error the stack is part of the message: its first line alone is for people.
    """
    lines = (message.strip().partition("\n")[0] for _, message in java_messages(error))
    named = [line for line in lines if "/" in line]
    return "; ".join(dict.fromkeys(named)) if named else root_message(error)
