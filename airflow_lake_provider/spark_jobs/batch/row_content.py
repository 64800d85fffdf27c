"""Digest of the values of a row, by which two rows of one key are told apart without carrying their values.

It is a hash of 64 bits, ``xxhash64``, and only rows of one key are compared. So two of them that differ are taken for
the same by a chance of one in 2^64. It is no proof against one who builds a collision. That would be the writer of
the source, who may as well leave the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_lake_provider.spark_jobs.sql.identifiers import field_of

# In one number.
_FLAGS = 60


def content_digest(values: Sequence[tuple[str, DataType]]) -> Column:
    """Return the digest, a BIGINT that is the same for rows that are equal in all values.

    NULL is equal to NULL, NaN to NaN and -0.0 to 0.0. Maps are equal in any order of their entries.

    :param values: SQL and type of each; rows that are compared need the same types.
    """
    # A hash passes over NULL: without the flags ('a', NULL) were the same as (NULL, 'a'). To hash each would cost more.
    # Sums, which look for an overflow each time, took a third of the digest.
    bits = [f"shiftleft(CAST({value} IS NULL AS BIGINT), {place % _FLAGS})" for place, (value, _) in enumerate(values)]
    packed = [" | ".join(bits[start : start + _FLAGS]) for start in range(0, len(bits), _FLAGS)]
    parts = [*packed, *(hashable(value, kind) for value, kind in values)]
    # A row of nothing but its key has no values, and a hash of none is none of Spark's.
    return sf.expr(f"xxhash64({', '.join(parts) or '0'})")


def hashable(value: str, kind: DataType, depth: int = 0) -> str:
    """Return SQL of what a hash tells apart just where two values differ.

    :param value: SQL.
    """
    item = f"lake_item{depth}"
    match kind:
        case StructType():
            names = [(field_of(value, field.name), field.dataType) for field in kind]
            fields = [part for name, inner in names for part in (f"{name} IS NULL", hashable(name, inner, depth))]
            return f"struct({', '.join(fields)})" if fields else f"{value} IS NULL"
        case ArrayType():
            # A hash runs through elements as through columns, so that their number has to be told.
            element = f"struct({item} IS NULL, {hashable(item, kind.elementType, depth + 1)})"
            return f"struct(size({value}), transform({value}, {item} -> {element}))"
        case MapType():
            # As Spark hashes no map.
            key, inside = f"{item}.key", f"{item}.value"
            hashed = (hashable(key, kind.keyType, depth + 1), hashable(inside, kind.valueType, depth + 1))
            entry = f"struct({hashed[0]}, {inside} IS NULL, {hashed[1]})"
            entries = f"transform(map_entries({value}), {item} -> {entry})"
            return f"struct(size({value}), array_sort({entries}))"
    # A date and a text of it are one in JSON.
    return f"struct(to_json({value}), schema_of_variant({value}))" if kind.typeName() == "variant" else value
