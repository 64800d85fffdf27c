"""Refuse fields of JSON that are declared in another case: Spark's parser tells names by case, and would read NULL.

Example: the schema says ``customerId``, the records say ``customerID``. Only a sample is looked at, so that a sound
batch is not parsed twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.faulty_lines import decoded_line, text_lines
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl

_SAMPLE = 100
# In the driver's Python a value takes many times its text.
_LONGEST_TEXT = 1024 * 1024


def refuse_spelled_fields(spark: SparkSession, source: Files, paths: Sequence[str], options: Mapping[str, str]) -> None:
    """Compare the names of some records of the first file with the source's schema.

    :param options: of Spark's reader.
    :raises BadInputError: see :func:`refuse_other_case`.
    """
    lower = {name.lower(): value for name, value in options.items()}
    is_whole = lower.get("multiline", "false").lower() == "true"
    lines = text_lines(spark, paths[:1], options, **({"wholetext": "true"} if is_whole else {}))
    short = lines.filter(f"octet_length(value) <= {_LONGEST_TEXT}")
    sample = short.selectExpr(decoded_line(lower)).limit(1 if is_whole else _SAMPLE)
    refuse_other_case((row[0] for row in sample.collect()), parse_ddl(str(source.schema)), repr(source.path))


def refuse_other_case(texts: Iterable[str | bytes], schema: StructType, what: str) -> None:
    """Compare the names of some records with those of the declared fields, nested ones too.

    :param texts: some of the records, or arrays of them; what is no JSON is left to Spark's parser.
    :param what: the input, for messages.
    :raises BadInputError: a record has a declared name in another case only.
    """
    others: dict[str, str] = {}
    for text in texts:
        # Too many levels end Python's parser, too.
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            others.update(_other_spellings(value if isinstance(value, list) else [value], ArrayType(schema), ()))
    if others:
        shown = ", ".join(f"{declared} where records have {name}" for declared, name in sorted(others.items())[:5])
        raise BadInputError(
            f"the schema of {what} declares {shown}. Names of JSON are told by case: spell them in the schema as the "
            "records do"
        )


def _other_spellings(value: Any, kind: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each declared name that a value has in another case only, and how the value has it."""
    match value, kind:
        case dict(), StructType():
            spelled = {name.lower(): name for name in value if name not in kind.names}
            for field in kind:
                if field.name in value:
                    yield from _other_spellings(value[field.name], field.dataType, (*path, field.name))
                elif name := spelled.get(field.name.lower()):
                    yield ".".join((*path, field.name)), name
        case dict(), MapType():
            for each in value.values():
                yield from _other_spellings(each, kind.valueType, path)
        case list(), ArrayType():
            for each in value:
                yield from _other_spellings(each, kind.elementType, path)
