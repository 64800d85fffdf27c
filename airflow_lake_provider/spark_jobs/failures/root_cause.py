"""The known cause of a driver's error: what Java, or Python itself, said innermost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_lake_provider.contracts.failure_causes import JVM_GONE, FailureCause, cause_in
from airflow_lake_provider.spark_jobs.jvm.java_errors import java_causes, java_exception, java_exceptions

_ICEBERG = "org.apache.iceberg."
# Libraries that Iceberg carries along, and what all of it calls.
_RELOCATED = re.compile(r"\.(?:relocated|shaded|common|util)\.")
# Clients of catalogs. What they read in a store they read through other classes.
_CATALOGS = tuple(
    f"{_ICEBERG}{name}"
    for name in ("jdbc.", "rest.", "hive.", "aws.glue.", "aws.dynamodb.", "nessie.", "snowflake.", "ClientPool")
)


def root_cause(error: BaseException) -> FailureCause | None:
    """Return the cause of an error; None where it is of no known kind."""
    of_java = next((each for each in _chain(error) if java_exception(each) is not None), None)
    if of_java is not None:
        texts = [f"{name}: {message}" for name, message in java_causes(of_java)][::-1]
        # To look for the class costs a call for each frame.
        return cause_in(texts) or (cause_in(texts, is_of_a_catalog=True) if is_of_a_catalog(of_java) else None)
    texts = [f"{type(each).__name__}: {each}" for each in _chain(error)][::-1]
    said = next(filter(None, (JVM_GONE.find(text) for text in texts)), None)
    return cause_in(texts) if said is None else FailureCause(JVM_GONE, said)


def is_of_a_catalog(error: BaseException) -> bool:
    """Tell whether an error of Java came out of a client of a catalog, and of nothing that it called."""
    found = _iceberg_class(error)
    return found is not None and found.startswith(_CATALOGS)


def _iceberg_class(error: BaseException) -> str | None:
    """Return the class of Iceberg that is next to where the innermost exception of Java comes from."""
    found = None
    for java in java_exceptions(error):
        names = (str(frame.getClassName()) for frame in java.getStackTrace())
        # An exception of another thread, or of a plain library's, may have none.
        found = next((name for name in names if name.startswith(_ICEBERG) and not _RELOCATED.search(name)), found)
    return found


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error of Python and those that it came of, outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
