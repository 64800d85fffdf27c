"""Times of Parquet in nanoseconds, as pandas writes them: read where they are whole microseconds, as a table has them.

Spark refuses the type, or by a setting reads it as a number. So the setting is for files of which each such number is
made a time again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError
from airflow_lake_provider.spark_jobs.sources.faulty_lines import NANOSECONDS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, text_literal

_AS_NUMBERS = "spark.sql.legacy.parquet.nanosAsLong"
_IS_OURS = "spark.lake.nanoseconds.asNumbers"
_UNIT = "TIMESTAMP(NANOS"
_COLUMN = re.compile(r"(?:optional|required) int64 .* \(TIMESTAMP\(NANOS,(true|false)\)\)", re.DOTALL)
_OPENED_AT_ONCE = 16

Times = Mapping[str, TimestampType | TimestampNTZType]


def nanosecond_times(spark: SparkSession, files: Sequence[InputFile]) -> Times:
    """Return the columns of these files that are times in nanoseconds, by lower-case name.

    :return: nothing where one is inside of another column, or is something else in another file.
    """
    try:
        with ThreadPoolExecutor(_OPENED_AT_ONCE) as readers:
            columns = list(chain.from_iterable(readers.map(lambda file: list(_columns(spark, file)), files)))
    except (GatewayError, PySparkException):
        # What Spark says of such a file is told with its name.
        return {}
    texts: dict[str, set[str]] = {}
    for name, text in columns:
        named = _COLUMN.fullmatch(text)
        if named is None and _UNIT in text:
            return {}
        texts.setdefault(name.lower(), set()).add(named[1] if named else "")
    times = {name: of_files for name, of_files in texts.items() if of_files - {""}}
    if any(len(of_files) > 1 for of_files in times.values()):
        return {}
    return {name: TimestampType() if of_files == {"true"} else TimestampNTZType() for name, of_files in times.items()}


def read_as_numbers(spark: SparkSession) -> None:
    """Let this session read nanoseconds as numbers, until files are listed anew: they are read later than planned."""
    spark.conf.set(_AS_NUMBERS, "true")
    spark.conf.set(_IS_OURS, "true")


def refuse_as_before(spark: SparkSession) -> None:
    """Undo :func:`read_as_numbers`, for files of which nobody knows yet; an author's own setting stays."""
    if spark.conf.get(_IS_OURS, None) is not None:
        spark.conf.unset(_AS_NUMBERS)
        spark.conf.unset(_IS_OURS)


def with_times(rows: DataFrame, times: Times) -> DataFrame:
    """Return rows with times in the place of nanoseconds, and with those that have a finer one marked as unparsable.

    :param rows: as they are read as numbers.
    """
    fine = [name for name in rows.columns if name.lower() in times]
    made = (_time(name, times[name.lower()]) if name in fine else quoted_name(name) for name in rows.columns)
    cases = " ".join(
        f"WHEN {quoted_name(name)} % 1000 <> 0 THEN {text_literal(f'{NANOSECONDS}, in {name}')}" for name in fine
    )
    return rows.selectExpr(*made, f"CASE {cases} END AS {UNPARSABLE}")


def _time(column: str, kind: TimestampType | TimestampNTZType) -> str:
    name = quoted_name(column)
    time = f"timestamp_micros(CASE WHEN {name} % 1000 = 0 THEN {name} DIV 1000 END)"
    return f"{time if isinstance(kind, TimestampType) else f'CAST({time} AS TIMESTAMP_NTZ)'} AS {name}"


def _columns(spark: SparkSession, file: InputFile) -> Iterator[tuple[str, str]]:
    """Yield the columns of a file with their types as Parquet writes them."""
    jvm = jvm_of(spark)
    hadoop, settings = jvm.org.apache.parquet.hadoop, java_session(spark).sessionState().newHadoopConf()
    path = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(file.path), settings)
    with closing(hadoop.ParquetFileReader.open(path)) as reader:
        for column in reader.getFileMetaData().getSchema().getFields():
            yield str(column.getName()), str(column.toString())
