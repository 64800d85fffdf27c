"""CSV files whose headers differ: Spark fails at one of them, which may be the sound one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sources.arrival import literal_paths
from airflow_lake_provider.spark_jobs.sources.unreadable_files import reason_of

_SHOWN = 3
_LONGEST = 200


@contextmanager
def refusing_other_headers(spark: SparkSession, source_name: str, files: Sequence[InputFile]) -> Iterator[None]:
    """Turn Spark's error over a header into one with all headers that there are.

    :raises BadInputError: naming a file of each header.
    """
    try:
        yield
    # PySpark leaves a failed task untranslated.
    except SPARK_ERRORS as error:
        if "csv header" not in str(error).lower():
            raise
        raise BadInputError(
            f"the CSV files of source {source_name} do not all have the same header, or one has a column twice: "
            f"{_headers(spark, files) or reason_of(error)}. Give the files of each header a source of their own, or "
            "apply those with fewer columns first, by a path that names them alone"
        ) from error


def _headers(spark: SparkSession, files: Sequence[InputFile]) -> str:
    lines = spark.read.text(literal_paths(files)).filter(sf.length(sf.trim("value")) > 0)
    place = sf.struct(sf.col("_metadata.file_block_start"), sf.monotonically_increasing_id()).alias("place")
    placed = lines.select("value", sf.col("_metadata.file_path").alias("file"), place)
    first = placed.groupBy("file").agg(sf.min_by("value", "place").alias("header"))
    named = first.groupBy("header").agg(sf.min("file").alias("file"), sf.count("*").alias("files"))
    found = named.orderBy("file").limit(_SHOWN + 1).collect()
    shown = [f"{row['header'][:_LONGEST]!r} in {row['files']} files, such as {row['file']}" for row in found[:_SHOWN]]
    return "; ".join([*shown, *(["and others"] if len(found) > _SHOWN else [])])
