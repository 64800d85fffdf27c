"""Calendar of days before 15 October 1582 in ORC files, which only newer Java writers record.

A file without the record is taken for one of the older Java writers, which counted by the Julian calendar. The C++
writer, of pyarrow and DuckDB, counts by the Gregorian one: its days would be shifted (ORC-763, ``orc_proto.proto``).
The clock of a time is that of the JVM which reads it, so it has to be the session's.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from enum import Enum
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError
from airflow_lake_provider.spark_jobs.sql.nested_types import types_inside

# ORC's own default of files without the record; a reader has it of its options.
GREGORIAN = {"orc.proleptic.gregorian.default": "true"}
_OPENED_AT_ONCE = 16
_TIMES = (TimestampType, TimestampNTZType)
_FIRST_DAY = -141_427
_DAY_MILLISECONDS = 86_400_000
# 5 to 14 October, which the Julian calendar has not: Spark, which goes by way of it, has no place for them.
_LEFT_OUT = range(_FIRST_DAY - 10, _FIRST_DAY)


class _Calendar(Enum):
    RECORDED = "recorded"
    OF_JAVA = "Julian, unless recorded"
    OF_OTHERS = "Gregorian"
    OLD_OF_OTHERS = "Gregorian, with days before 1582-10-15"
    LEFT_OUT_OF_OTHERS = "Gregorian, with days from 1582-10-05 to 1582-10-14"


def calendar_options(spark: SparkSession, files: Sequence[InputFile], schema: StructType) -> dict[str, str]:
    """Return the options with which Spark reads the days of these files as their writers counted them.

    :raises BadInputError: files of both calendars do not say which is theirs, and one has such days.
    """
    read = [file for file in files if file.size]
    if not read or not _has_days(schema):
        return {}
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as readers:
        calendars = dict(zip(read, readers.map(lambda file: _calendar_of(spark, file), read), strict=True))
    for file, calendar in calendars.items():
        if calendar is _Calendar.LEFT_OUT_OF_OTHERS:
            raise BadInputError(
                f"{file.path} has days from 1582-10-05 to 1582-10-14, which Spark's reader of ORC would shift; write "
                "them as text, or the file as Parquet"
            )
    kinds = set(calendars.values())
    if _Calendar.OF_JAVA not in kinds:
        return GREGORIAN if kinds - {_Calendar.RECORDED} else {}
    old = [file for file, calendar in calendars.items() if calendar is _Calendar.OLD_OF_OTHERS]
    if old:
        raise BadInputError(
            f"{old[0].path} has days before 1582-10-15 in the Gregorian calendar, and other files of the batch, of "
            "Java's ORC writer, do not say which calendar is theirs; Spark reads all by one. Give each kind of file a "
            "source of its own"
        )
    return {}


def refuse_other_zone(spark: SparkSession, schema: StructType, what: str) -> None:
    """Refuse times of ORC, which have no zone, where the JVM would take them for times of another than the session's.

    :raises BadInputError: naming both zones.
    """
    timed = [f.name for f in schema if any(isinstance(kind, _TIMES) for kind in types_inside(f.dataType))]
    zones = jvm_of(spark).java.util.TimeZone
    own, session = zones.getDefault(), str(spark.conf.get("spark.sql.session.timeZone"))
    if timed and not own.hasSameRules(zones.getTimeZone(session)):
        option = f"'-Duser.timezone={session}'"
        raise BadInputError(
            f"{what} have times of orc in {timed}, read in the zone of the machine, {own.getID()}, and the "
            f"session has {session}: they would be shifted. Give driver and executors that zone, "
            f"conf={{'spark.driver.extraJavaOptions': {option}, 'spark.executor.extraJavaOptions': {option}}}, or "
            "write the files as Parquet"
        )


def _has_days(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_days(field.dataType) for field in kind)
        case ArrayType():
            return _has_days(kind.elementType)
        case MapType():
            return _has_days(kind.keyType) or _has_days(kind.valueType)
    return isinstance(kind, (DateType, *_TIMES))


def _calendar_of(spark: SparkSession, file: InputFile) -> _Calendar:
    jvm = jvm_of(spark)
    settings = java_session(spark).sessionState().newHadoopConf()
    orc = jvm.org.apache.orc.OrcFile
    try:
        path = jvm.org.apache.hadoop.fs.Path(file.path)
        with closing(orc.createReader(path, orc.readerOptions(settings))) as reader:
            if reader.writerUsedProlepticGregorian():
                return _Calendar.RECORDED
            # 0 is ORC's own Java library.
            if reader.getFileTail().getFooter().getWriter() == 0:
                return _Calendar.OF_JAVA
            columns = list(reader.getStatistics())
            if any(_has_left_out(statistics) for statistics in columns):
                return _Calendar.LEFT_OUT_OF_OTHERS
            is_old = any(_is_old(statistics) for statistics in columns)
            return _Calendar.OLD_OF_OTHERS if is_old else _Calendar.OF_OTHERS
    except (GatewayError, PySparkException):
        # What Spark says of such a file is told with its name.
        return _Calendar.RECORDED


def _is_old(statistics: Any) -> bool:
    if statistics.getNumberOfValues() == 0:
        return False
    match str(statistics.getClass().getSimpleName()):
        case "DateStatisticsImpl":
            return bool(statistics.getMinimumDayOfEpoch() < _FIRST_DAY)
        case "TimestampStatisticsImpl":
            return _minimum_of_times(statistics) < _FIRST_DAY * _DAY_MILLISECONDS
    return False


def _has_left_out(statistics: Any) -> bool:
    """Return whether the first or the last day was left out; days between are not in the statistics."""
    if statistics.getClass().getSimpleName() != "DateStatisticsImpl" or statistics.getNumberOfValues() == 0:
        return False
    return statistics.getMinimumDayOfEpoch() in _LEFT_OUT or statistics.getMaximumDayOfEpoch() in _LEFT_OUT


def _minimum_of_times(statistics: Any) -> int:
    try:
        return int(statistics.getMinimum().getTime())
    except (GatewayError, PySparkException):
        # Java cannot read the C++ writer's fractions of seconds before 1970: the time may be any of them.
        return _FIRST_DAY * _DAY_MILLISECONDS - 1
