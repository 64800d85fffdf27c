"""Invariants of a rewrite on summaries as Iceberg writes them, and on those that count nothing."""

from __future__ import annotations

import re

import pytest

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import broken_change, broken_invariant

REWRITE = {"added-data-files": "1", "deleted-data-files": "6", "added-records": "1000"}


def snapshot(**summary: str) -> Snapshot:
    """Return a snapshot with a summary."""
    return Snapshot(
        id="2", parent="1", at=0, summary={name.replace("_", "-"): value for name, value in summary.items()}
    )


def rewrite(deleted: int) -> Snapshot:
    """Return the snapshot of a rewrite of files with so many records into files with 1,000."""
    return Snapshot(id="2", parent="1", at=0, summary={**REWRITE, "deleted-records": str(deleted)})


@pytest.mark.parametrize(
    ("deleted", "before", "manifests_say"),
    [
        (1000, snapshot(), 0),
        (1000, snapshot(total_position_deletes="5"), 5),
        (1005, snapshot(total_position_deletes="5"), 5),
        # Some deletes lay on rows that others deleted already.
        (1003, snapshot(total_position_deletes="5"), 5),
        # One key may delete any number of rows.
        (9000, snapshot(total_equality_deletes="1"), 1),
        # The summary does not count what the manifests have.
        (1005, snapshot(), 5),
        (1005, snapshot(), None),
    ],
)
def test_a_rewrite_that_applies_deletes_breaks_nothing(
    deleted: int, before: Snapshot, manifests_say: int | None
) -> None:
    assert broken_invariant(rewrite(deleted), before, lambda _: manifests_say) is None


@pytest.mark.parametrize(
    ("deleted", "before", "manifests_say", "sentence"),
    [
        (999, snapshot(), 0, "it has 1 rows more than the 6 files that it replaced"),
        (990, snapshot(total_equality_deletes="9"), 9, "it has 10 rows more"),
        (1001, snapshot(), 0, "it has 1 rows fewer than the 6 files that it replaced, and 0 were deleted"),
        (1006, snapshot(total_position_deletes="5"), 5, "it has 6 rows fewer than .* and 5 were deleted"),
    ],
)
def test_a_rewrite_that_loses_or_doubles_rows_is_told(
    deleted: int, before: Snapshot, manifests_say: int, sentence: str
) -> None:
    broken = broken_invariant(rewrite(deleted), before, lambda _: manifests_say)
    assert re.match(sentence, broken or "")


def test_a_rewrite_of_manifests_or_deletes_keeps_rows_and_files() -> None:
    before = snapshot(total_records="10", total_data_files="3")
    same = snapshot(total_records="10", total_data_files="3", manifests_created="1", removed_position_deletes="4")
    assert broken_invariant(same, before, lambda _: 0) is None
    # A writer that counts nothing says nothing.
    assert broken_invariant(snapshot(total_records="10"), snapshot(), lambda _: 0) is None
    fewer = snapshot(total_records="10", total_data_files="2")
    sentence = "it replaced no data file, and total-data-files went from 3 to 2"
    assert broken_invariant(fewer, before, lambda _: 0) == sentence


CHANGES: dict[str, tuple[dict[str, str], dict[str, str], int, int | None]] = {
    "a vector": ({"added_position_deletes": "5"}, {}, 5, 0),
    "a vector in place of another": (
        {"added_position_deletes": "8", "removed_position_deletes": "3"},
        {"total_position_deletes": "3"},
        5,
        3,
    ),
    "a vector in place of files that had a row twice": (
        {"added_position_deletes": "6", "removed_position_deletes": "2"},
        {"total_position_deletes": "2"},
        5,
        2,
    ),
    "a whole file": ({"deleted_records": "10"}, {}, 10, 0),
    "a whole file with a vector": (
        {"deleted_records": "10", "removed_position_deletes": "3"},
        {"total_position_deletes": "3"},
        7,
        3,
    ),
    "a file copied": ({"deleted_records": "10", "added_records": "8"}, {}, 2, 0),
    "rows updated": ({"added_records": "4", "added_position_deletes": "4"}, {}, 0, 0),
    "keys deleted before": ({"deleted_records": "10"}, {"total_equality_deletes": "2"}, 3, 0),
    "deletes that no summary counts": ({"deleted_records": "10"}, {}, 7, 3),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_takes_the_rows_that_matched_breaks_nothing(what: str) -> None:
    done, before, deleted, in_manifests = CHANGES[what]
    assert broken_change(snapshot(**done), snapshot(**before), deleted, lambda _: in_manifests) is None


@pytest.mark.parametrize(
    ("done", "before", "deleted", "sentence"),
    [
        ({"deleted_records": "10"}, {}, 9, "9 rows matched, and 10 went, of which at most 0 were deleted before"),
        ({"deleted_records": "10"}, {}, 11, "11 rows matched, and 10 went"),
        ({"deleted_records": "10"}, {"total_position_deletes": "2"}, 7, "7 rows matched, and 10 went, .* at most 2"),
        ({"deleted_records": "10", "added_records": "7"}, {}, 2, "2 rows matched, and 3 went"),
        ({"added_records": "9"}, {}, 0, "0 rows matched, and -9 went"),
    ],
)
def test_a_change_that_takes_other_rows_is_told(
    done: dict[str, str], before: dict[str, str], deleted: int, sentence: str
) -> None:
    counted = int(before.get("total_position_deletes", "0"))
    broken = broken_change(snapshot(**done), snapshot(**before), deleted, lambda _: counted)
    assert broken is not None
    assert re.search(sentence, broken)
