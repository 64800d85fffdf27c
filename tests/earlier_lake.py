"""The input of the lake that commit 9bcfaf4 wrote, what comes after it, and the rows of both, in plain Python.

It imports nothing that one of the two commits lacks: that one makes the lake with it, the present one goes on.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Debezium, Files
from tests.spark.sources.debezium.event_writer import SourceTable, Topic

# A mount of Hadoop's viewfs, so that no path in the metadata depends on where the lake lies.
ROOT = "viewfs://earlier"
WRITTEN = 1_760_000_000
DDL = "id BIGINT, n INT, note STRING"
# More files than a property has room for.
MANY = 260
REVENUE = "SELECT id, n * 10 AS n, note, _change_type FROM changes"
Rows = dict[int, tuple[Any, ...]]


@dataclass
class Delivery:
    """One table, its source, and what the source brings.

    :param before: files of each run of the earlier commit; ``after``: those that come later.
    :param rows_before: of the table after the last run of ``before``; ``rows``: at the end.
    :param arguments: of an upsert beside source and keys.
    """

    source: Any
    before: list[dict[str, list[str]]] = field(default_factory=list)
    after: dict[str, list[str]] = field(default_factory=dict)
    rows_before: Rows = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)


def write(folder: Path, files: dict[str, list[str]]) -> None:
    """Write files of lines with the time that identifies them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
        os.utime(folder / name, (WRITTEN, WRITTEN))


def deliveries() -> dict[str, Delivery]:
    """Return all of them by the name of their table, in the order in which they are applied."""
    found = {
        "products": _products(),
        "sums": _sums(),
        "partitioned": _events("partitioned", None),
        "streamed": _events("streamed", "stream"),
        "by_key": _events("by_key", "key"),
    }
    products = found["products"]
    found["queried"] = Delivery(
        Query("SELECT id, n + 1 AS n, note FROM source", over=_files("products")),
        rows_before={key: (n + 1, note) for key, (n, note) in products.rows_before.items()},
        rows={key: (n + 1, note) for key, (n, note) in products.rows.items()},
        # The result of a query has no order of its own.
        arguments={**products.arguments, "order_by": ("n",)},
    )
    # A table is read as it is: a row that is gone there stays.
    found["copied"] = Delivery(
        LakeTable("lake.products"), rows_before=products.rows_before, rows={**products.rows_before, **products.rows}
    )
    return found


def revenue(products: Rows) -> Rows:
    """Return what the query of an incremental run makes of the products."""
    return {key: (n * 10, note) for key, (n, note) in products.items()}


def _files(name: str) -> Files:
    return Files(f"{ROOT}/inbox/{name}/*.jsonl", schema=DDL, format="json")


def _lines(*rows: tuple[int, int, str]) -> list[str]:
    return [json.dumps({"id": key, "n": n, "note": note}) for key, n, note in rows]


def _products() -> Delivery:
    return Delivery(
        _files("products"),
        before=[
            {"1.jsonl": _lines((1, 1, "old"), (2, 2, "two"), (3, 3, "three"))},
            {"2.jsonl": _lines((1, 10, "new"), (4, 4, "four"))},
        ],
        # What came first is never applied over what came later.
        after={"3.jsonl": _lines((2, 20, "changed"), (5, 5, "five"), (3, 0, "deleted"))},
        rows_before={1: (10, "new"), 2: (2, "two"), 3: (3, "three"), 4: (4, "four")},
        rows={1: (10, "new"), 2: (20, "changed"), 4: (4, "four"), 5: (5, "five")},
        arguments={"delete_when": "note = 'deleted'"},
    )


def _sums() -> Delivery:
    before = {f"{number:03}.jsonl": _lines((number % 3, number, "a")) for number in range(MANY)}
    totals = [sum(range(rest, MANY, 3)) for rest in range(3)]
    return Delivery(
        _files("sums"),
        before=[before],
        after={"later.jsonl": _lines((0, 1000, "b"), (7, 7, "b"))},
        rows_before={rest: (total, "a") for rest, total in enumerate(totals)},
        rows={0: (totals[0] + 1000, "b"), 1: (totals[1], "a"), 2: (totals[2], "a"), 7: (7, "b")},
        arguments={"merge_engine": Aggregation({"n": "sum"})},
    )


def _events(name: str, ordering: str | None) -> Delivery:
    table, topic = SourceTable(kafka=ordering != "stream", headers=True), Topic(partitions=2)

    def taken() -> list[str]:
        lines = table.take_lines()
        return topic.produce(lines) if table.kafka else lines

    table.insert(1, 1, "long first")
    table.insert(2, 2, "long second")
    table.insert(3, 3, "short")
    first = taken()
    table.update(2, 4)
    table.delete(3)
    held = {key: (row["n"], row["note"]) for key, row in table.rows.items()}
    # Only the delete of the old key comes: the value of the new one is in a snapshot of the table.
    table.move(1, 5, 6)
    *second, create = taken()
    del held[1]
    table.update(2, 7)
    table.insert(6, 8, "last")
    again = {"0 again.jsonl": first} if ordering else {}
    return Delivery(
        Debezium(f"{ROOT}/inbox/{name}/*.jsonl", table="public.items", schema=DDL, ordering=ordering),
        before=[{"1.jsonl": first}, {"2.jsonl": second}],
        # A partition's events come again at their own offsets, those of the other orderings in any file.
        after={"1 again.jsonl": first, "3.jsonl": [create, *taken()], **again},
        rows_before=held,
        rows={key: (row["n"], row["note"]) for key, row in table.rows.items()},
    )
