"""The schema of a few Parquet files, read on the driver: Spark starts a job for it, half of a small batch's reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

# Spark reads so many footers at a time on one machine.
_MOST_FILES = 8
# Types that Spark takes of a file, where it reads them as text, and refuses of a schema that it is given.
_PADDED = ('"char(', '"varchar(')


def schema_of_footers(spark: SparkSession, files: Sequence[InputFile]) -> StructType | None:
    """Return the schema that all files have, as Spark finds it.

    :return: None where that is left to Spark: many files, different schemas, CHAR, a file that cannot be read.
    """
    if len(files) > _MOST_FILES:
        return None
    try:
        found = set(_schemas(spark, files))
    except (GatewayError, PySparkException):
        # What Spark says of such a file is told with its name.
        return None
    if len(found) != 1:
        return None
    schema = found.pop()
    return None if any(kind in schema for kind in _PADDED) else StructType.fromJson(json.loads(schema))


def _schemas(spark: SparkSession, files: Sequence[InputFile]) -> Iterator[str]:
    """Yield the schema of each file, as JSON."""
    jvm = jvm_of(spark)
    state = java_session(spark).sessionState()
    # With what the session sets for Hadoop, keys of encrypted files for example.
    settings = state.newHadoopConf()
    package = jvm.org.apache.spark.sql.execution.datasources.parquet
    converter = package.ParquetToSparkSchemaConverter(state.conf())

    def schema_of(file: InputFile) -> str:
        hadoop = jvm.org.apache.parquet.hadoop
        path = jvm.org.apache.hadoop.fs.Path(file.path)
        reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, settings))
        try:
            footer = hadoop.Footer(path, reader.getFooter())
        finally:
            reader.close()
        return str(package.ParquetFileFormat.readSchemaFromFooter(footer, converter).json())

    if all(file.path.startswith("file:") for file in files):
        # To start the threads takes longer.
        yield from map(schema_of, files)
        return
    # Of an object store each footer is two requests.
    with ThreadPoolExecutor(_MOST_FILES) as readers:
        yield from readers.map(schema_of, files)
