"""Columns of Parquet as pandas writes them: times in nanoseconds, and columns without a type.

Times are read where they are whole microseconds, as a table has them.
Spark refuses the type, or by a setting reads it as a number. So the setting is for files of which each such number is
made a time again. A column of nothing but None has no type, and Spark reads it as INT: it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.batch.change_batch import TEXTS_OF_TIMES, UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError
from airflow_lake_provider.spark_jobs.sources.dead_letters import texts_of_nanoseconds
from airflow_lake_provider.spark_jobs.sources.faulty_lines import NANOSECONDS
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, quoted_name, text_literal

_AS_NUMBERS = "spark.sql.legacy.parquet.nanosAsLong"
_IS_OURS = "spark.lake.nanoseconds.asNumbers"
_UNIT = "TIMESTAMP(NANOS"
_COLUMN = re.compile(r"(?:optional|required) int64 .* \(TIMESTAMP\(NANOS,(true|false)\)\)", re.DOTALL)
_OPENED_AT_ONCE = 16
_UNTYPED = "(UNKNOWN)"
_KINDS: dict[str, TimestampType | TimestampNTZType] = {"true": TimestampType(), "false": TimestampNTZType()}

Times = Mapping[str, TimestampType | TimestampNTZType]


@dataclass(frozen=True)
class FileGroup:
    """Files that have the same columns of times in nanoseconds, and of nothing but NULL.

    :param times: by lower-case name.
    :param untyped: lower-case names of columns without a type, as pandas writes one where all is None.
    """

    files: tuple[InputFile, ...]
    times: Times
    untyped: frozenset[str]

    def columns(self, names: Sequence[str], *, keeps_texts: bool = False) -> list[str]:
        """Return SQL of the columns as a table has them, without those that have no type.

        Records with a finer time are marked as unparsable.

        :param names: of the columns, whose nanoseconds are read as numbers.
        :param keeps_texts: keep the times of such a record as they are in its file, in ``_lake_texts_of_times``.
        """
        kept = [name for name in names if name.lower() not in self.untyped]
        fine = [name for name in kept if name.lower() in self.times]
        made = [_time(name, self.times[name.lower()]) if name in fine else quoted_name(name) for name in kept]
        cases = " ".join(
            f"WHEN {quoted_name(name)} % 1000 <> 0 THEN {text_literal(f'{NANOSECONDS}, in {name}')}" for name in fine
        )
        if not fine:
            return [*made, f"CAST(NULL AS STRING) AS {UNPARSABLE}"]
        if keeps_texts:
            is_finer = any_of(f"{quoted_name(name)} % 1000 <> 0" for name in fine)
            texts = texts_of_nanoseconds({name: self.times[name.lower()] for name in fine})
            made.append(f"CASE WHEN {is_finer} THEN {texts} END AS {TEXTS_OF_TIMES}")
        return [*made, f"CASE {cases} END AS {UNPARSABLE}"]


def file_groups(spark: SparkSession, files: Sequence[InputFile]) -> list[FileGroup]:
    """Return groups of these files, each of which can be read as one.

    :return: nothing where no file has a time in nanoseconds or a column without a type, or a nested time in them.
    """
    try:
        with ThreadPoolExecutor(_OPENED_AT_ONCE) as readers:
            columns = list(readers.map(lambda file: dict(_columns(spark, file)), files))
    except (GatewayError, PySparkException):
        # What Spark says of such a file is told with its name.
        return []
    groups: dict[tuple[frozenset[tuple[str, str]], frozenset[str]], list[InputFile]] = {}
    for file, texts in zip(files, columns, strict=True):
        zones = {name.lower(): named[1] for name, text in texts.items() if (named := _COLUMN.fullmatch(text))}
        if any(_UNIT in text and name.lower() not in zones for name, text in texts.items()):
            return []
        untyped = frozenset(name.lower() for name, text in texts.items() if text.endswith(_UNTYPED))
        groups.setdefault((frozenset(zones.items()), untyped), []).append(file)
    if not any(zones or untyped for zones, untyped in groups):
        return []
    return [
        FileGroup(tuple(group), {name: _KINDS[zone] for name, zone in zones}, untyped)
        for (zones, untyped), group in groups.items()
    ]


def read_as_numbers(spark: SparkSession) -> None:
    """Let this session read nanoseconds as numbers, until files are listed anew: they are read later than planned."""
    spark.conf.set(_AS_NUMBERS, "true")
    spark.conf.set(_IS_OURS, "true")


def refuse_as_before(spark: SparkSession) -> None:
    """Undo :func:`read_as_numbers`, for files of which nobody knows yet; an author's own setting stays."""
    if spark.conf.get(_IS_OURS, None) is not None:
        spark.conf.unset(_AS_NUMBERS)
        spark.conf.unset(_IS_OURS)


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
