"""Changes up to a snapshot of an earlier schema: by its names, and whatever the table is partitioned by now."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import RangeUnavailableError
from tests.spark.formats.iceberg.incremental.changes_history import CATALOG, ChangesHistory, deletes, upserts


@pytest.fixture
def history(spark: SparkSession) -> ChangesHistory:
    return ChangesHistory(spark)


def test_keys_are_the_identifier_fields_by_their_names_of_then(history: ChangesHistory) -> None:
    start = history.run("INSERT INTO {t} VALUES (1, 'same'), (2, 'same')")
    end = history.run("DELETE FROM {t} WHERE id = 2")
    history.run("ALTER TABLE {t} RENAME COLUMN id TO key")
    history.run("INSERT INTO {t} VALUES (3, 'c')")
    assert history.changes(start, end) == deletes((2, "same"))
    # The identifier field has the name that the other column had.
    history.run("ALTER TABLE {t} RENAME COLUMN v TO id")
    history.run("ALTER TABLE {t} RENAME COLUMN key TO v")
    history.run("INSERT INTO {t} (v, id) VALUES (4, 'd')")
    assert history.changes(start, end) == deletes((2, "same"))
    assert history.changes(None, end) == upserts((1, "same"))


def test_partitions_and_an_order_by_columns_of_later_or_none_do_not_matter(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b"})
    end = history.run("DELETE FROM {t} WHERE id = 2")
    for change in ("ADD COLUMN p INT", "ADD PARTITION FIELD p", "WRITE ORDERED BY p"):
        history.run(f"ALTER TABLE {{t}} {change}")
    last = history.run("INSERT INTO {t} VALUES (3, 'c', 5)")
    assert history.changes(start, end) == deletes((2, "b"))
    assert history.changes(start, last) == deletes((2, "b", None)) + upserts((3, "c", 5))
    for change in ("DROP PARTITION FIELD p", "WRITE UNORDERED", "DROP COLUMN p"):
        history.run(f"ALTER TABLE {{t}} {change}")
    now = history.run("DELETE FROM {t} WHERE id = 3")
    assert history.changes(start, last) == deletes((2, "b", None)) + upserts((3, "c", 5))
    assert history.changes(last, now) == deletes((3, "c"))


def test_a_rollback_past_a_wider_type_is_told_and_the_next_commit_ends_it(history: ChangesHistory) -> None:
    history.run("ALTER TABLE {t} ADD COLUMN n INT")
    narrow = history.run("INSERT INTO {t} VALUES (1, 'a', 1)")
    history.run("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT")
    wide = history.run("INSERT INTO {t} VALUES (2, 'b', 3000000000)")
    history.run(f"CALL {CATALOG}.system.rollback_to_snapshot('{{t}}', {narrow})")
    with pytest.raises(RangeUnavailableError, match=r"rolled back to before .* n was long, now int.*once something"):
        history.changes(wide)
    history.run("INSERT INTO {t} VALUES (3, 'c', 4000000000)")
    assert history.changes(wide) == deletes((2, "b", 3000000000)) + upserts((3, "c", 4000000000))
