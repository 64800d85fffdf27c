"""Files of text for the benchmark of reading them: rows as JSON lines and as CSV, and change events of Debezium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium, Files

_PARTS = 4
_FLAT = {
    "id": "BIGINT",
    "customer": "STRING",
    "status": "STRING",
    "quantity": "INT",
    "amount": "DECIMAL(12,2)",
    "rate": "DOUBLE",
    "day": "DATE",
    "changed_at": "TIMESTAMP",
    "is_open": "BOOLEAN",
    "note": "STRING",
}
_VALUES = """
    id,
    concat('customer ', id % 100000) AS customer,
    element_at(array('new', 'paid', 'sent', 'back'), cast(id % 4 + 1 AS INT)) AS status,
    cast(id % 90 AS INT) AS quantity,
    cast(id % 1000000 / 100 AS DECIMAL(12,2)) AS amount,
    cast(id % 1000 / 8 AS DOUBLE) AS rate,
    date_add(DATE'2024-01-01', cast(id % 700 AS INT)) AS day,
    timestamp_micros(1704067200000000 + id * 1234567) AS changed_at,
    id % 2 = 0 AS is_open,
    concat('left at the door, number ', id % 1000, repeat(' and so on', cast(id % 6 AS INT))) AS note
"""
_NESTED = {**_FLAT, "lines": "ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2)>>", "address": "STRUCT<city: STRING>"}
_MORE = """
    transform(sequence(1, cast(id % 3 + 1 AS INT)), n -> named_struct('sku', concat('sku ', n), 'price',
        cast(id % 10000 / 100 AS DECIMAL(10,2)))) AS lines,
    named_struct('city', concat('city ', id % 500)) AS address
"""
_EVENT = """
    to_json(named_struct(
        'before', cast(NULL AS STRING),
        'after', named_struct('id', id, 'customer', customer, 'status', status, 'quantity', quantity, 'amount',
            cast(amount AS STRING), 'note', note),
        'source', named_struct('version', '3.0.0', 'connector', 'postgresql', 'name', 'shop',
            'ts_ms', 1704067200000 + id, 'snapshot', 'false', 'db', 'shop',
            'sequence', concat('["', id + 100, '","', id + 200, '"]'),
            'schema', 'public', 'table', 'orders', 'txId', id, 'lsn', id + 200),
        'op', 'c', 'ts_ms', 1704067200500 + id), map('ignoreNullFields', 'false')) AS value
"""
_EVENT_COLUMNS = "id BIGINT, customer STRING, status STRING, quantity INT, amount DECIMAL(12,2), note STRING"


@dataclass(frozen=True, kw_only=True)
class TextKind:
    """Files of one kind.

    :param source: that names them; ``schema`` is what a plain reader of Spark is given.
    :param bytes_of_row: about how many a row has.
    """

    name: str
    source: Files | Debezium
    schema: str
    bytes_of_row: int
    options: Mapping[str, str] = field(default_factory=dict)


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def text_kinds(home: Path) -> list[TextKind]:
    """Return the kinds, in folders of their own below ``home``."""

    def rows(name: str, columns: Mapping[str, str], size: int, kind: str = "json", **options: str) -> TextKind:
        schema = _ddl(columns)
        source = Files(str(home / name), kind, schema=schema, options=options)
        return TextKind(name=name, source=source, schema=schema, bytes_of_row=size, options=options)

    events = Debezium(str(home / "events"), table="orders", schema=_EVENT_COLUMNS)
    envelope = (
        f"before STRUCT<{_EVENT_COLUMNS}>, after STRUCT<{_EVENT_COLUMNS}>, op STRING, ts_ms BIGINT, source "
        "STRUCT<`schema`: STRING, `table`: STRING, sequence: STRING, ts_ms: BIGINT, snapshot: STRING>"
    )
    return [
        rows("json", _FLAT, 231),
        rows("nested", _NESTED, 338),
        rows("csv", _FLAT, 125, "csv", header="true"),
        TextKind(name="events", source=events, schema=envelope, bytes_of_row=475),
    ]


def write_files(spark: SparkSession, kind: TextKind, megabytes: int) -> None:
    """Write the files, of about so many megabytes together."""
    ids = spark.range(0, megabytes * 1_000_000 // kind.bytes_of_row, 1, _PARTS)
    values = f"{_VALUES}, {_MORE}" if kind.name == "nested" else _VALUES
    _write(spark.sql(f"SELECT {values} FROM {{ids}}", ids=ids), kind)


def _write(rows: DataFrame, kind: TextKind) -> None:
    path = str(kind.source.path)
    if kind.name == "csv":
        rows.write.options(**kind.options).csv(path)
    elif kind.name == "events":
        rows.selectExpr(_EVENT).write.text(path)
    else:
        rows.write.json(path)
