"""Columns of Avro files: each file has a schema of its own, and Spark would read all by that of one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of, opened_file
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.sources.batch_columns import refuse_unfit_columns, widens
from airflow_lake_provider.spark_jobs.sources.kafka.avro_units import refuse_units_of
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import record_schema
from airflow_lake_provider.spark_jobs.sources.unreadable_files import unreadable

# A store answers in tens of milliseconds, and a source may have thousands of files.
_OPENED_AT_ONCE = 16
# Numbers in units that Spark does not know: it reads them as they are.
_UNITS = ("time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos")


def merged_columns(
    spark: SparkSession,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    columns_of: Callable[[InputFile], StructType],
) -> StructType:
    """Return the columns of all files, merged by name.

    :param options: of the reader; one may be a schema for all files.
    :param columns_of: of one file, as Spark reads it.
    :raises BadInputError: a column has types of which none holds the values of the other.
    """
    merged = columns_of(files[0])
    given = _given_schema(spark, options)
    if given is None and len(files) == 1:
        return merged
    first_of = _first_of_each_schema(spark, files)
    if given is not None:
        _refuse_units_beside(given, first_of)
        return merged
    _refuse_other_units(first_of)
    for file in list(first_of.values())[1:]:
        columns = columns_of(file)
        refuse_unfit_columns(columns.names, file.path)
        if unfit := list(_unfit(merged, columns)):
            raise BadInputError(
                f"avro files do not go together, {file.path} and those before it: {'; '.join(unfit)}. Write the column "
                "in one type, or give each kind of file a source of its own"
            )
        merged = _merged_columns(merged, columns)
    return merged


def _first_of_each_schema(spark: SparkSession, files: Sequence[InputFile]) -> dict[str, InputFile]:
    first_of: dict[str, InputFile] = {}
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as readers:
        for file, schema in zip(files, readers.map(lambda file: _schema_text(spark, file), files), strict=True):
            first_of.setdefault(schema, file)
    return first_of


def _given_schema(spark: SparkSession, options: Mapping[str, str]) -> str | None:
    """Return the schema for all files, which Spark has read before; None where each has its own."""
    given = {name.lower(): value for name, value in options.items()}
    text, url = given.get("avroschema"), given.get("avroschemaurl")
    if text is None and url is None:
        return None
    parser = jvm_of(spark).org.apache.avro.Schema.Parser()
    if text is not None:
        return str(parser.parse(text).toString())
    with opened_file(spark, str(url)) as stream:
        return str(parser.parse(stream).toString())


def _refuse_units_beside(given: str, first_of: Mapping[str, InputFile]) -> None:
    """Refuse files whose numbers Avro would hand on in units of their own, whatever the given schema calls them."""
    reader = record_schema(given, "avroSchema")
    for schema, file in first_of.items():
        refuse_units_of(record_schema(schema, file.path), reader, file.path)


def _refuse_other_units(first_of: Mapping[str, InputFile]) -> None:
    """Refuse a column of plain numbers whose unit is another in each file.

    :param first_of: a file of each schema.
    """
    units: dict[str, tuple[str, InputFile]] = {}
    for schema, file in first_of.items():
        for path, unit in _units(json.loads(schema)):
            other, first = units.setdefault(path.lower(), (unit, file))
            if other != unit:
                raise BadInputError(
                    f"avro files do not go together: {path} is {other} in {first.path} and {unit} in {file.path}, and "
                    "Spark reads plain numbers of both. Write it in one unit, or give each kind of file a source of "
                    "its own, with a Query that makes one unit of it"
                )


def _units(kind: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of such numbers with their units; a branch of several has the name of Spark's column of it."""
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        # These two have one column.
        is_one = len(branches) == 1 or {_plain(branch) for branch in branches} == {"int", "long"}
        for place, branch in enumerate(branches):
            yield from _units(branch, path if is_one else f"{path}.member{place}")
    if not isinstance(kind, Mapping):
        return
    if (unit := kind.get("logicalType")) in _UNITS:
        yield path, unit
    for inside in (kind.get("items"), kind.get("values"), *([] if isinstance(kind["type"], str) else [kind["type"]])):
        yield from _units(inside, path)
    for field in kind.get("fields", ()):
        yield from _units(field["type"], f"{path}.{field['name']}" if path else str(field["name"]))


def _plain(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, Mapping) else kind)


def _schema_text(spark: SparkSession, file: InputFile) -> str:
    avro = jvm_of(spark).org.apache.avro
    try:
        with (
            opened_file(spark, file.path) as stream,
            closing(avro.file.DataFileStream(stream, avro.generic.GenericDatumReader())) as header,
        ):
            return str(header.getSchema().toString())
    except JavaError as error:
        raise unreadable(file, "avro", error) from error


def _unfit(left: DataType, right: DataType, name: str = "") -> Iterator[str]:
    """Yield the fields whose types cannot be merged, with both."""
    if isinstance(left, StructType) and isinstance(right, StructType):
        named = _by_name(right)
        for field in left:
            if (other := named.get(field.name.lower())) is not None:
                yield from _unfit(field.dataType, other.dataType, f"{name}.{field.name}" if name else field.name)
    elif isinstance(left, ArrayType) and isinstance(right, ArrayType):
        yield from _unfit(left.elementType, right.elementType, f"{name}.element")
    elif isinstance(left, MapType) and isinstance(right, MapType):
        yield from _unfit(left.valueType, right.valueType, f"{name}.value")
    elif not widens(left, right) and not widens(right, left):
        yield f"{name} is {right.simpleString()} and {left.simpleString()}"


def _merged_columns(left: StructType, right: StructType) -> StructType:
    own, others = _by_name(left), _by_name(right)
    shared = [
        StructField(field.name, _merged(field.dataType, others[name].dataType), metadata=field.metadata)
        if name in others
        else field
        for name, field in own.items()
    ]
    return StructType([*shared, *(field for name, field in others.items() if name not in own)])


def _merged(left: DataType, right: DataType) -> DataType:
    match left, right:
        case StructType(), StructType():
            return _merged_columns(left, right)
        case ArrayType(), ArrayType():
            return ArrayType(_merged(left.elementType, right.elementType))
        case MapType(), MapType():
            return MapType(left.keyType, _merged(left.valueType, right.valueType))
    return right if widens(left, right) else left


def _by_name(columns: StructType) -> dict[str, StructField]:
    return {field.name.lower(): field for field in columns}
