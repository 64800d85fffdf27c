"""Arrival order of a row in the input: its file by path order, then its place in the file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reports.failure_causes import CHANGED_MEANWHILE
from airflow_lake_provider.spark_jobs.batch.change_batch import ARRIVAL
from airflow_lake_provider.spark_jobs.jvm.gateway import once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_collections import list_of_texts, texts_of
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.sources.unread_names import GLOB_CHARACTERS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, text_literal
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of, metadata_column

_FILE = "_lake_file_path"
_BLOCK = "_lake_block"
_ROW = "_lake_row"
_NUMBER = "_lake_file"
_PATH = "org.apache.hadoop.fs.Path"
# Each row is compared with each path, so no more than what costs less than a join.
_MAX_COMPARED = 8
_DIGITS = 16


def literal_paths(files: Sequence[InputFile]) -> list[str]:
    """Return the paths so that Spark's readers take each as it is, though they glob what they are given."""
    return ["".join(f"\\{char}" if char in GLOB_CHARACTERS else char for char in file.path) for file in files]


def digest_of(files: Sequence[InputFile]) -> str:
    """Return a text that differs for other files, and for other versions of the same ones.

    Spark takes cached rows of files for those of any plan of the same paths, whatever the files hold by now. With the
    digest in it, a plan is that of these versions alone.
    """
    return hashlib.sha256(b"".join(file.digest for file in files)).hexdigest()[:_DIGITS]


@dataclass(frozen=True, kw_only=True)
class Scan:
    """One reading of the files.

    :param rows: straight from a file source: nothing may have moved its rows.
    :param columns: what is made of the rows on the way; no later filter is evaluated below them.
    :param where: what is kept of them, once they are numbered.
    """

    rows: DataFrame
    columns: Sequence[Column | str] = ("*",)
    where: str | None = None

    def placed(self) -> DataFrame:
        """Return the columns with the place of each row."""
        # The rows may have a column of that name.
        metadata = metadata_column(self.rows, "_metadata")
        path, block, row = metadata["file_path"], metadata["file_block_start"], sf.monotonically_increasing_id()
        rows = self.rows.select(*self.columns, path.alias(_FILE), block.alias(_BLOCK), row.alias(_ROW))
        return rows if self.where is None else rows.filter(self.where)


def with_arrival(
    spark: SparkSession,
    files: tuple[InputFile, ...],
    *scans: Scan,
    texts: Mapping[str, Sequence[str | None]] | None = None,
) -> DataFrame:
    """Add ``_lake_arrival``, a struct of file index, start of the split and row number, which orders as it is.

    The row number counts within a task, and a task reads its splits in any order, so it orders only within a split.

    :param files: the files that are read; their order is the order of arrival.
    :param scans: of these files; the first has all columns, and one that another lacks is NULL in its rows.
    :param texts: by the name of a column, its value for each file.
    """
    texts, uris, listing = texts or {}, _uris(spark, files), digest_of(files)
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    placed = reduce(union, (scan.placed() for scan in scans))
    if len(uris) <= _MAX_COMPARED:
        # A join is a job of its own, which takes longer than a small batch.
        cases = " ".join(f"WHEN {text_literal(uri)} THEN {number}" for number, uri in enumerate(uris))
        arrived = placed.withColumn(ARRIVAL, _arrival(f"CASE {_FILE} {cases} END", listing)).drop(_FILE, _BLOCK, _ROW)
        return arrived.selectExpr("*", *(_text_of_file(*column) for column in texts.items())) if texts else arrived
    # As an Arrow table: rows of Python objects would start a Python worker.
    numbers = {_FILE: pa.array(uris, pa.string()), _NUMBER: pa.array(range(len(uris)), pa.int32())}
    order = pa.table({**numbers, **{name: pa.array(values, pa.string()) for name, values in texts.items()}})
    numbered = placed.join(sf.broadcast(dataframe_of(spark, order)), _FILE, "left")
    return numbered.withColumn(ARRIVAL, _arrival(_NUMBER, listing)).drop(_FILE, _BLOCK, _ROW, _NUMBER)


def _text_of_file(name: str, values: Sequence[str | None]) -> str:
    """Return SQL of a text that each file has, by the number of the file."""
    literals = ("NULL" if value is None else text_literal(value) for value in values)
    cases = " ".join(f"WHEN {number} THEN {literal}" for number, literal in enumerate(literals))
    return f"CAST(CASE {ARRIVAL}.file {cases} END AS STRING) AS {quoted_name(name)}"


def _arrival(number: str, listing: str) -> Column:
    # Never NULL, which would order as the oldest file.
    unlisted = f"{CHANGED_MEANWHILE}Spark read a file that is not in listing {listing}: "
    unknown = f"raise_error(concat('{unlisted}', {_FILE}))"
    file = f"coalesce({number}, CAST({unknown} AS INT))"
    return sf.expr(f"struct({file} AS file, {_BLOCK} AS block, {_ROW} AS row)")


def _uris(spark: SparkSession, files: tuple[InputFile, ...]) -> list[str]:
    """Return the paths as Spark's ``_metadata.file_path`` spells them."""
    return texts_of(spark, list_of_texts(spark, [file.path for file in files]), _to_uri(spark))


@once_a_driver
def _to_uri(spark: SparkSession) -> Any:
    """Return a function of Java from the text of a path to its URI."""
    make = method_handles(spark)
    path = make.constructor(_PATH, "java.lang.String")
    return make.function(make.then(path, make.method(_PATH, "toUri", "java.net.URI")))


def describe_first(rows: DataFrame, is_bad: Column, files: tuple[InputFile, ...]) -> str:
    """Return file and line of the first bad row, for a message. It takes two jobs, so it is asked in failures only."""
    counted = rows.groupBy(sf.col(f"{ARRIVAL}.file").alias("file")).agg(
        sf.count_if(is_bad).alias("wrong"), sf.min(sf.when(is_bad, sf.col(ARRIVAL))).alias("first")
    )
    worst = counted.filter("wrong > 0").orderBy("file").limit(1).collect()[0]
    first = worst["first"]
    place = sf.struct(f"{ARRIVAL}.block", f"{ARRIVAL}.row")
    # Spark 3.5 compares only structs whose fields have the same names.
    last = sf.struct(*(sf.lit(first[name]).cast("long").alias(name) for name in ("block", "row")))
    not_later = place <= last
    # A record that two scans show has one place.
    record = rows.filter((sf.col(f"{ARRIVAL}.file") == worst["file"]) & not_later).select(place).distinct().count()
    return f"{worst['wrong']} in {files[worst['file']].path}, the first is its record {record}"
