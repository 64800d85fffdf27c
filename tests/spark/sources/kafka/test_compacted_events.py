"""Change events of topics that a real broker compacts: none that the table needs is missed without a word."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.debezium.event_writer import SourceTable
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.upsert_flow import Flow, NewFlow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
SCHEMA = "id INT, n INT, note STRING"
COMPACTS: dict[str, Any] = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "segment_ms": "100"}


class CompactedTopic:
    """A topic with the events of a table, and a broker that compacts it when it is asked to."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.table = SourceTable()
        cluster.make(name, **COMPACTS, max_compaction_lag_ms="100")

    def source(self, **arguments: Any) -> DebeziumTopic:
        return DebeziumTopic("kafka", self.name, **{"table": "public.items", "schema": SCHEMA, **arguments})

    def send(self, *, tombstones: bool = True) -> None:
        lines = map(json.loads, self.table.take_lines())
        sent = [(0, line["key"], line["value"]) for line in lines if tombstones or line["value"] is not None]
        self.cluster.send(self.name, *sent)

    def compact(self, records: int) -> None:
        """Wait until so many records are left, the last one among them: a segment that is written to stays."""
        time.sleep(0.2)
        self.table.update(9, self.table.position)
        self.send()
        self.cluster.wait_until_compacted(self.name, records)

    def is_in(self, flow: Flow) -> bool:
        """Return whether the lake's table is that of the source."""
        read = {row["id"]: {name: row[name] for name in ("id", "n", "note")} for row in flow.records()}
        return read == self.table.rows


@pytest.fixture
def shop(cluster: Cluster, request: pytest.FixtureRequest) -> CompactedTopic:
    topic = CompactedTopic(cluster, request.node.name[-30:].replace("[", "-").replace("]", ""))
    topic.table.insert(9, 0, "last")
    return topic


@pytest.mark.parametrize("ordering", ["partition", "key"])
def test_a_delete_of_which_the_tombstone_alone_is_left_is_refused_with_its_row(
    shop: CompactedTopic, new_flow: NewFlow, ordering: str
) -> None:
    flow, source = new_flow(**PLAIN), shop.source(ordering=ordering)
    for key in (1, 2):
        shop.table.insert(key, 0, "a")
    shop.send()
    flow.apply("run 1", source=source)
    shop.table.delete(1)
    shop.table.delete(2)
    shop.table.insert(2, 5, "again")
    shop.send()
    # The tombstone of 1, the create of 2, the first update of 9 and the last.
    shop.compact(4)
    with pytest.raises(
        BadInputError, match=r"the deletes of 1 rows of the table before a run came, such as \[{'id': 1"
    ):
        flow.apply("run 2", source=source)
    # By hand, as the error says.
    flow.spark.sql(f"DELETE FROM lake_default.{flow.table} WHERE id = 1")
    flow.apply("run 2", source=shop.source(ordering=ordering, on_gap="skip"))
    assert shop.is_in(flow)


def test_a_compacted_topic_gives_the_rows_of_its_source_where_the_table_misses_nothing(
    shop: CompactedTopic, new_flow: NewFlow
) -> None:
    flow = new_flow(**PLAIN)
    for key in (1, 2, 3):
        shop.table.insert(key, 0, "a")
    shop.table.delete(1)
    shop.send()
    shop.compact(5)
    # A table that has no rows misses none.
    flow.apply("run 1", source=shop.source())
    assert shop.is_in(flow)
    # The connector's tombstones.on.delete=false: deletes are the last records of their keys.
    shop.table.update(3, 1)
    shop.table.delete(2)
    shop.send(tombstones=False)
    shop.table.update(3, 2)
    shop.send()
    shop.compact(6)
    flow.apply("run 2", source=shop.source())
    assert shop.is_in(flow)


@pytest.mark.parametrize(("deletes", "kept"), [("ignore", {1, 2, 9}), ("soft", {2, 9})])
def test_a_lost_delete_is_none_where_deletes_are_left_out_and_a_flagged_row_is_deleted_already(
    shop: CompactedTopic, new_flow: NewFlow, deletes: str, kept: set[int]
) -> None:
    flow = new_flow(**PLAIN, merge_engine=Deduplicate(deletes=deletes))
    for key in (1, 2):
        shop.table.insert(key, 0, "a")
    shop.send()
    flow.apply("run 1", source=shop.source())
    shop.table.delete(1)
    shop.send()
    flow.apply("run 2", source=shop.source())
    shop.table.insert(1, 0, "b")
    shop.table.delete(1)
    shop.send()
    shop.compact(4)
    flow.apply("run 3", source=shop.source())
    assert {row["id"] for row in flow.records() if not row.get("is_deleted")} == kept


def test_a_value_whose_event_may_be_gone_is_not_taken_from_the_table(shop: CompactedTopic, new_flow: NewFlow) -> None:
    flow = new_flow(**PLAIN)
    shop.table.insert(1, 0, "long a")
    shop.send()
    flow.apply("run 1", source=shop.source())
    shop.table.update(1, 1, "long b")
    shop.table.update(1, 2)
    shop.send()
    shop.compact(3)
    with pytest.raises(BadInputError, match="1 keys begin behind that with an event that leaves out values"):
        flow.apply("run 2", source=shop.source())
    # A new snapshot has all values.
    shop.table.update(1, 3, "long b")
    shop.send()
    flow.apply("run 2", source=shop.source(on_gap="skip"))
    assert shop.is_in(flow)
    # Where nothing is gone, the table has the value.
    shop.table.update(1, 4)
    shop.send()
    flow.apply("run 3", source=shop.source())
    assert shop.is_in(flow)
