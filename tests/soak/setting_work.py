"""A small fixed piece of work over every type of key, and what it has to leave, told by plain Python."""

from __future__ import annotations

import base64
import csv
import json
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow
from tests.spark.key_types import KEY_TYPES, plain
from tests.spark.upsert_flow import Flow

# A UUID is text to Spark.
KINDS = tuple(kind for kind in KEY_TYPES.values() if kind.name != "UUID")
KEYS = tuple(f"k{place}" for place in range(len(KINDS)))
_TEXT, _DAY, _BYTES = (KEYS[[kind.name for kind in KINDS].index(name)] for name in ("STRING", "DATE", "BINARY"))
_KEY_DDL = ", ".join(f"{name} {kind.name}" for name, kind in zip(KEYS, KINDS, strict=True))
_FLAT = f"{_KEY_DDL}, v INT, x DOUBLE, note STRING"
_NESTED = f"{_FLAT}, s STRUCT<a: INT, b: STRING>, l ARRAY<STRING>"
_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
_WHERE = f"v < 3 AND {_TEXT} > 'a' AND {_DAY} < DATE '1599-12-31'"
_LATEST = date(1599, 12, 31)

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]


def _row(number: int, value: int, text: str | None = None) -> Row:
    row: Row = {name: kind.values[number % len(kind.values)] for name, kind in zip(KEYS, KINDS, strict=True)}
    row[_TEXT] = text if text is not None else row[_TEXT]
    values = {"v": value, "x": number + value / 4, "note": f"{row[_TEXT]}|{value}"}
    return {**row, **values, "s": {"a": value, "b": row[_TEXT]}, "l": [row[_TEXT], None]}


def key_of(row: Row) -> tuple[Any, ...]:
    """Return a row's key, as plain Python has it."""
    return tuple(plain(row[name]) for name in KEYS)


def _plain_row(row: Row) -> Row:
    return {name: plain(value) for name, value in row.items()}


ALL = [_row(number, 1) for number in range(len(KEY_TYPES["STRING"].values))]
# What CSV can hold: it has neither bytes nor nested values.
_READABLE = [place for place, row in enumerate(ALL) if row[_BYTES] in (b"A", b"it's")]
CSV_ROWS = [_row(place, 2) for place in _READABLE]
CSV_ROWS += [_row(_READABLE[0], 2, 'say "new"'), _row(_READABLE[1], 2, "it's \\new")]
GONE = key_of(CSV_ROWS[2])
MERGED = [_row(place, 3) for place in range(0, len(ALL), 3)]


def expected() -> tuple[Rows, Rows]:
    """Return the rows that the table has at first, and those that it has in the end."""
    first = {key_of(row): row for row in ALL}
    last = dict(first)
    for row in CSV_ROWS:
        kept = last.get(key_of(row), {"s": None, "l": None})
        last[key_of(row)] = {**row, "s": kept["s"], "l": kept["l"]}
    del last[GONE]
    last |= {key_of(row): row for row in MERGED}
    gone = [k for k, row in last.items() if row["v"] < 3 and row[_TEXT] > "a" and row[_DAY] < _LATEST]
    assert len(gone) > 1
    for key in gone:
        del last[key]
    return first, last


def _text(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value


@dataclass
class SettingWork:
    """The files, which are written once, and the work over them, a table each time.

    :param folder: where the files are.
    """

    spark: SparkSession
    folder: Path
    first: Rows = field(default_factory=lambda: expected()[0])
    last: Rows = field(default_factory=lambda: expected()[1])

    def write(self) -> None:
        """Write the files of the three batches."""
        self.folder.mkdir(parents=True)
        lines = (json.dumps({name: _text(value) for name, value in row.items()}) for row in ALL)
        (self.folder / "1.jsonl").write_text("".join(f"{line}\n" for line in lines))
        with (self.folder / "2.csv").open("w", newline="") as opened:
            flat = csv.writer(opened, quoting=csv.QUOTE_ALL)
            names = [*KEYS, "v", "x", "note"]
            flat.writerow([*names, "op"])
            for row in CSV_ROWS:
                texts = {**row, _BYTES: row[_BYTES].decode()}
                flat.writerow([*(_text(texts[name]) for name in names), "d" if key_of(row) == GONE else "u"])
        columns = {
            name: pa.array([row[name] for row in MERGED], kind.arrow) for name, kind in zip(KEYS, KINDS, strict=True)
        }
        others = {"v": pa.int32(), "x": pa.float64(), "note": pa.string(), "s": _STRUCT, "l": pa.list_(pa.string())}
        columns |= {name: pa.array([row[name] for row in MERGED], kind) for name, kind in others.items()}
        pq.write_table(pa.table(columns), self.folder / "3.parquet")

    def run(self, table: str) -> None:
        """Make a table of the files, delete rows of it and read what has changed.

        :raises AssertionError: rows or counts are not those that plain Python has.
        """
        flow = Flow(self.spark, table, self.folder, {"keys": KEYS, "delete_when": None, "exclude_columns": ()})
        made = flow.apply("1", source=Files(path=f"{self.folder}/1.jsonl", format="json", schema=_NESTED))
        assert made.rows_inserted == len(ALL), made
        options = {"header": "true", "nullValue": ""}
        flat = Files(path=f"{self.folder}/2.csv", format="csv", schema=f"{_FLAT}, op STRING", options=options)
        rest: dict[str, Any] = {
            "delete_when": "op = 'd'",
            "exclude_columns": ("op",),
            "missing_columns": MissingColumns.KEEP,
        }
        flagged = flow.apply("2", source=flat, strategy=UpsertStrategy.POSITIONS, **rest)
        changed = (flagged.rows_inserted, flagged.rows_updated, flagged.rows_deleted)
        assert changed == (2, len(CSV_ROWS) - 3, 1), flagged
        source = Files(path=f"{self.folder}/3.parquet", format="parquet")
        merged = flow.apply("3", source=source, strategy=UpsertStrategy.MERGE)
        assert merged.strategy == "merge", merged
        job: dict[str, Any] = {"catalog": "lake_default", "table": table, "run": RunIdentity.of("dag", "4", "t", "-1")}
        delete_rows(self.spark, DeleteRowsSpec(**job, where=_WHERE, proof=False), Progress())
        self.check(flow)

    def check(self, flow: Flow) -> None:
        """Compare the rows as PyIceberg reads them, and the changes since the first batch."""
        loaded = flow.loaded()
        found = [_plain_row(row) for row in loaded.scan().to_arrow().to_pylist()]
        _same("rows", found, list(self.last.values()))
        begin = str(loaded.history()[0].snapshot_id)
        read = [_plain_row(row) for row in to_arrow(read_changes(self.spark, flow.table, begin, None)).to_pylist()]
        upserts = [row for row in read if row.pop("_change_type") == "upsert"]
        _same("changed rows", upserts, [row for row in self.last.values() if row["v"] > 1])
        kept = {key_of(row) for row in upserts}
        gone = [key_of(row) for row in read if key_of(row) not in kept]
        _same("keys that are gone", gone, list(self.first.keys() - self.last.keys()))


def _same(what: str, found: list[Any], wanted: list[Any]) -> None:
    missing = [repr(one) for one in wanted if one not in found]
    extra = [repr(one) for one in found if one not in wanted]
    assert not missing, f"{what}: {len(missing)} missing, {len(extra)} too many, such as {missing[0]}; {extra[:1]}"
    assert len(found) == len(wanted), f"{what}: {len(found)}, not {len(wanted)}: {extra[:1]}"
