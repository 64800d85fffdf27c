"""Columns of ORC and Parquet files of types that Spark does not read, found in a file that it has refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

_OF_ORC = ("timestamp with local time zone", "uniontype")
# Read as TIME, which no table takes.
_TIME = '"time('
_WAY_OUT = (
    "Write the column in another type, such as a TIMESTAMP without nanoseconds and zone, text or bytes; or leave it out"
)


def refuse_unread_types(spark: SparkSession, file: InputFile, kind: str, cause: Exception) -> None:
    """Refuse a file with columns that Spark does not read.

    :param file: that Spark has refused.
    :param cause: what it said.
    :raises BadInputError: naming the file, the columns and their types.
    """
    columns_of = {"orc": _unread_of_orc, "parquet": _unread_of_parquet}.get(kind)
    if columns_of is None:
        return
    try:
        unread = list(columns_of(spark, file))
    except (GatewayError, PySparkException):
        # It is no such file: what Spark says of it is told with its name.
        return
    if unread:
        raise BadInputError(
            f"{file.path} cannot be read as {kind}: Spark does not read its columns {'; '.join(unread)}. {_WAY_OUT}"
        ) from cause


def _unread_of_orc(spark: SparkSession, file: InputFile) -> Iterator[str]:
    jvm = jvm_of(spark)
    settings = java_session(spark).sessionState().newHadoopConf()
    orc = jvm.org.apache.orc.OrcFile
    path = jvm.org.apache.hadoop.fs.Path(file.path)
    with closing(orc.createReader(path, orc.readerOptions(settings))) as reader:
        schema = reader.getSchema()
        for name, column in zip(schema.getFieldNames(), schema.getChildren(), strict=True):
            text = str(column.toString())
            if any(kind in text for kind in _OF_ORC):
                yield f"{name}: {text}"


def _unread_of_parquet(spark: SparkSession, file: InputFile) -> Iterator[str]:
    jvm = jvm_of(spark)
    state = java_session(spark).sessionState()
    converter = jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter(state.conf())
    hadoop, types = jvm.org.apache.parquet.hadoop, jvm.org.apache.parquet.schema
    path = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(file.path), state.newHadoopConf())
    with closing(hadoop.ParquetFileReader.open(path)) as reader:
        for column in reader.getFileMetaData().getSchema().getFields():
            alone = jvm.java.util.ArrayList()
            alone.add(column)
            if not _is_read(converter, types.MessageType("alone", alone)):
                yield f"{column.getName()}: {' '.join(str(column.toString()).split())}"


def _is_read(converter: Any, column: Any) -> bool:
    try:
        return _TIME not in str(converter.convert(column).json())
    except (GatewayError, PySparkException):
        return False


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
        schemas = set(_schemas(spark, files))
    except (GatewayError, PySparkException):
        # What Spark says of such a file is told with its name.
        return None
    if len(schemas) != 1:
        return None
    schema = schemas.pop()
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
        file_path = hadoop.util.HadoopInputFile.fromPath(path, settings)
        with closing(hadoop.ParquetFileReader.open(file_path)) as reader:
            footer = hadoop.Footer(path, reader.getFooter())
        return str(package.ParquetFileFormat.readSchemaFromFooter(footer, converter).json())

    if all(file.path.startswith("file:") for file in files):
        # To start the threads takes longer.
        yield from map(schema_of, files)
        return
    # Of an object store each footer is two requests.
    with ThreadPoolExecutor(_MOST_FILES) as readers:
        yield from readers.map(schema_of, files)
