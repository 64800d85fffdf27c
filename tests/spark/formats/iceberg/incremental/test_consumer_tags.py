"""The tags and properties with which a consumer protects its range on the source table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental import consumer_tags
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.consumer_tags import advance, pin
from tests.spark.formats.iceberg.incremental.changes_history import CATALOG, ChangesHistory

WHO = {"owner": "dag task", "target": "mart.revenue", "mode": "net"}


@pytest.fixture
def history(spark: SparkSession) -> ChangesHistory:
    return ChangesHistory(spark)


def tags(history: ChangesHistory) -> dict[str, str]:
    rows = history.spark.sql(f"SELECT name, snapshot_id FROM {history.name}.refs WHERE type = 'TAG'").collect()
    return {row["name"]: str(row["snapshot_id"]) for row in rows}


def properties(history: ChangesHistory) -> dict[str, str]:
    rows = history.spark.sql(f"SHOW TBLPROPERTIES {history.name}").collect()
    return {row["key"]: row["value"] for row in rows if row["key"].startswith("lake.")}


def test_a_pinned_snapshot_survives_expiry_and_the_pin_can_move(history: ChangesHistory) -> None:
    first = history.insert({1: "a"})
    pin(history.handle(), "revenue", int(first))
    history.insert({2: "b"})
    last = history.insert({3: "c"})
    history.run(f"CALL {CATALOG}.system.expire_snapshots(table => '{{t}}', older_than => TIMESTAMP '2100-01-01 00:00')")
    assert history.handle().java.snapshot(int(first)) is not None
    pin(history.handle(), "revenue", int(last))
    assert tags(history) == {"lake.consumer.revenue.reading": last}


def test_advancing_moves_the_tag_drops_the_pin_and_says_who_in_one_commit(history: ChangesHistory) -> None:
    first = history.insert({1: "a"})
    second = history.insert({2: "b"})
    pin(history.handle(), "revenue", int(first))
    advance(history.handle(), "revenue", int(first), **WHO)
    pin(history.handle(), "revenue", int(second))
    versions = len(history.handle().java.operations().current().previousFiles())
    advance(history.handle(), "revenue", int(second), **WHO)
    assert len(history.handle().java.operations().current().previousFiles()) == versions + 1
    assert tags(history) == {"lake.consumer.revenue": second}
    said = properties(history)
    moved = datetime.fromisoformat(said.pop("lake.consumer.revenue.advanced-at"))
    assert timedelta(0) <= datetime.now(UTC) - moved < timedelta(minutes=1)
    assert said == {
        "lake.consumer.revenue.snapshot": second,
        "lake.consumer.revenue.owner": "dag task",
        "lake.consumer.revenue.target": "mart.revenue",
        "lake.consumer.revenue.mode": "net",
    }


def test_the_tables_age_of_refs_takes_no_consumers_tag_also_of_before(history: ChangesHistory) -> None:
    first = history.insert({1: "a"})
    advance(history.handle(), "revenue", int(first), **WHO)
    for name in ("lake.consumer.before", "lake.consumer.before.reading", "lake.consumer.of_owner", "by_hand"):
        history.run(f"ALTER TABLE {{t}} CREATE TAG `{name}` AS OF VERSION {first}")
    history.run(f"ALTER TABLE {{t}} REPLACE TAG `lake.consumer.of_owner` AS OF VERSION {first} RETAIN 9 DAYS")
    second = history.insert({2: "b"})
    pin(history.handle(), "before", int(first))
    advance(history.handle(), "of_owner", int(second), **WHO)
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('history.expire.max-ref-age-ms'='1')")
    history.run(f"CALL {CATALOG}.system.expire_snapshots(table => '{{t}}', older_than => TIMESTAMP '1980-01-01 00:00')")
    assert tags(history) == {
        "lake.consumer.revenue": first,
        "lake.consumer.before.reading": first,
        "lake.consumer.of_owner": second,
    }
    by_owner = history.handle().facts.references["lake.consumer.of_owner"]
    assert by_owner.max_ref_age == 9 * 86_400_000
    (kept,) = {ref.max_ref_age for name, ref in history.handle().facts.references.items() if ref.snapshot == first}
    assert kept == 2**63 - 1


def test_advancing_again_or_without_a_pin_does_no_harm(history: ChangesHistory) -> None:
    head = history.insert({1: "a"})
    for _ in range(2):
        advance(history.handle(), "revenue", int(head), **WHO)
    assert tags(history) == {"lake.consumer.revenue": head}


def test_consumers_and_writers_at_the_same_time_lose_nothing(history: ChangesHistory) -> None:
    head = history.insert({1: "a"})

    def consume(consumer: str) -> None:
        pin(history.handle(), consumer, int(head))
        advance(history.handle(), consumer, int(head), **WHO)

    with ThreadPoolExecutor(4) as threads:
        written = threads.submit(history.insert, {2: "b"})
        for consumed in [threads.submit(consume, f"c{number}") for number in range(3)]:
            consumed.result()
        written.result()
    assert tags(history) == {f"lake.consumer.c{number}": head for number in range(3)}
    assert len([name for name in properties(history) if name.endswith(".snapshot")]) == 3
    assert history.spark.table(history.name).count() == 2


def test_attempts_are_bounded_when_others_always_win(history: ChangesHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    head = history.insert({1: "a"})
    rivals = iter(range(100))

    def move_after_a_rival(transaction: Any, refs: Any, moves: Any) -> None:
        move_tags(transaction, refs, moves)
        history.handle().java.manageSnapshots().createTag(f"rival-{next(rivals)}", int(head)).commit()

    move_tags = consumer_tags._move_tags
    with monkeypatch.context() as patched:
        patched.setattr(consumer_tags, "_move_tags", move_after_a_rival)
        patched.setattr(consumer_tags, "LONGEST_PAUSE", 0.0)
        with pytest.raises(CommitConflictError, match="8 times"):
            pin(history.handle(), "revenue", int(head))
    assert len(tags(history)) == 8
    pin(history.handle(), "revenue", int(head))
    assert tags(history)["lake.consumer.revenue.reading"] == head


def test_a_snapshot_that_is_gone_cannot_be_pinned(history: ChangesHistory) -> None:
    first = history.insert({1: "a"})
    history.insert({2: "b"})
    history.expire_all_but()
    with pytest.raises(CommitConflictError, match=f"snapshot {first} was expired"):
        pin(history.handle(), "revenue", int(first))
