"""Scores as a table of cases: what each part takes at its threshold, below it, and at its worst."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.maintenance import score
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.maintenance.score import HealthLimits, Measures, ScorePart, age_text, score_of, score_parts

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "health.md"
FILES: dict[str, Any] = {"data_files": 1000, "records": 1_000_000, "data_bytes": 10**12}
DECLARED = HealthLimits(fresh_within=timedelta(hours=1), consumed_within=timedelta(days=1))


@pytest.mark.parametrize("name", ["fresh_within", "consumed_within"])
@pytest.mark.parametrize("span", [timedelta(0), timedelta(hours=-1)])
def test_a_limit_that_no_age_can_be_measured_by_is_refused(name: str, span: timedelta) -> None:
    limits: dict[str, Any] = {name: span}
    with pytest.raises(InvalidSpecError, match=f"{name} must be a positive timedelta"):
        HealthLimits(**limits)


def behind(**span: float) -> ConsumerLag:
    return ConsumerLag(consumer="report", snapshot="1", commits=3, behind=timedelta(**span))


# Measures and the points that the part takes of them.
CASES: dict[str, list[tuple[dict[str, Any], int]]] = {
    "small-files": [
        ({"mergeable_files": 199}, 0),
        ({"mergeable_files": 200}, 10),
        ({"mergeable_files": 550}, 25),
        ({"mergeable_files": 900}, 40),
        ({"mergeable_files": 999}, 40),
        ({"data_files": 5, "mergeable_files": 4}, 0),
    ],
    "equality-deletes": [
        ({}, 0),
        ({"equality_deletes": 1}, 10),
        ({"equality_deletes": 50_000}, 25),
        ({"equality_deletes": 100_000}, 40),
        ({"records": 0, "equality_deletes": 1}, 40),
    ],
    "position-deletes": [
        ({"deleted_rows": 99_999}, 0),
        ({"deleted_rows": 100_000}, 8),
        ({"deleted_rows": 500_000}, 30),
        ({"deleted_rows": 9_000_000}, 30),
    ],
    "deletion-vectors": [({"deleted_rows": 300_000, "vector_deletes": 200_000}, 19)],
    "delete-files": [
        ({"delete_files": 999}, 0),
        ({"delete_files": 1000}, 5),
        ({"delete_files": 5000}, 20),
        ({"data_files": 1, "delete_files": 4}, 0),
    ],
    "partition-deletes": [
        ({"worst_partition": 0.29}, 0),
        ({"worst_partition": 0.3}, 4),
        ({"worst_partition": 1.0}, 15),
    ],
    "dangling-deletes": [
        ({"delete_files": 100, "dangling_files": 9}, 0),
        ({"delete_files": 100, "dangling_files": 10}, 2),
        ({"delete_files": 100, "dangling_files": 100}, 10),
    ],
    "snapshots": [({"expirable": 99}, 0), ({"expirable": 100}, 4), ({"expirable": 70_000}, 15)],
    "manifests": [
        ({"mergeable_manifests": 99}, 0),
        ({"mergeable_manifests": 100}, 5),
        ({"mergeable_manifests": 500}, 20),
    ],
    "manifest-overlap": [
        ({"manifests": 19, "overlap": 1.0}, 0),
        ({"manifests": 20, "overlap": 0.49}, 0),
        ({"manifests": 20, "overlap": 0.5}, 2),
        ({"manifests": 20, "overlap": 1.0}, 10),
    ],
    "metadata-size": [
        ({"metadata_bytes": 2 * 1024**2 - 1}, 0),
        ({"metadata_bytes": 2 * 1024**2}, 4),
        ({"metadata_bytes": 110 * 1024**2}, 15),
    ],
    "consumers": [
        ({"consumer": behind(hours=23)}, 0),
        ({"consumer": behind(days=1)}, 2),
        ({"consumer": behind(days=9)}, 10),
    ],
    "freshness": [
        ({"data_age": timedelta(minutes=59)}, 0),
        ({"data_age": timedelta(hours=1)}, 5),
        ({"data_age": timedelta(days=1)}, 20),
        ({"data_age": timedelta(hours=-1)}, 0),
    ],
    "orphans": [({"orphan_bytes": 10**10}, 0), ({"orphan_bytes": 10**11}, 2), ({"orphan_bytes": 10**13}, 10)],
}


def parts_of(**given: Any) -> dict[str, ScorePart]:
    return {part.name: part for part in score_parts(Measures(**{**FILES, **given}), DECLARED)}


@pytest.mark.parametrize(
    ("name", "given", "lost"), [(name, given, lost) for name, cases in CASES.items() for given, lost in cases]
)
def test_a_part_takes_points_from_its_threshold_on(name: str, given: dict[str, Any], lost: int) -> None:
    part = parts_of(**given)[name]
    assert part.lost == lost
    assert ("; " in part.reason.partition("the threshold is ")[2]) == (lost > 0)


def test_a_score_is_100_less_all_points_and_never_below_0() -> None:
    assert score_of(()) == 100
    assert score_of(tuple(parts_of().values())) == 100
    ill = parts_of(mergeable_files=950, equality_deletes=10**6, deleted_rows=10**6, expirable=9000)
    assert sum(part.lost for part in ill.values()) > 100
    assert score_of(tuple(ill.values())) == 0


def test_what_nobody_has_measured_is_no_part() -> None:
    parts = {part.name for part in score_parts(Measures(), HealthLimits())}
    assert parts == {"small-files", "position-deletes", "equality-deletes", "delete-files", "snapshots"}


def test_a_reason_has_number_threshold_and_remedy() -> None:
    parts = parts_of(mergeable_files=371, data_files=412, metadata_bytes=3 * 1024**2, consumer=behind(hours=60))
    assert parts["small-files"].reason == (
        "371 of 412 data files, 90%, would be gone if small ones were merged; the threshold is 20%; "
        "a compaction merges them."
    )
    assert parts["metadata-size"].reason.startswith("metadata.json has 3 MiB, which each commit writes")
    assert "consumer report is 2.5 days behind" in parts["consumers"].reason


def test_the_page_has_the_numbers_of_each_part() -> None:
    rows = {
        name: [cell.strip() for cell in row.split("|")]
        for row in PAGE.read_text().splitlines()
        for name in re.findall(r"`([a-z-]+)`", row.split("|")[1] if row.startswith("| `") else "")
        if row.count("|") == 7
    }
    assert rows.keys() == CASES.keys()
    same = {
        "small-files": score.SMALL_FILES,
        "equality-deletes": score.EQUALITY_DELETES,
        "position-deletes": score.DELETED_ROWS,
        "deletion-vectors": score.DELETED_ROWS,
        "delete-files": score.DELETE_FILES,
        "partition-deletes": score.PARTITION_DELETES,
        "dangling-deletes": score.DANGLING_DELETES,
        "snapshots": score.SNAPSHOTS,
        "manifests": score.MANIFESTS,
        "manifest-overlap": score.MANIFEST_OVERLAP,
        "metadata-size": score.METADATA_BYTES,
        "consumers": score.CONSUMERS,
        "freshness": score.FRESHNESS,
        "orphans": score.ORPHANS,
    }
    for name, threshold in same.items():
        said = [cell.replace(" MiB", "") for cell in rows[name][3:6]]
        unit = 1024**2 if name == "metadata-size" else 1
        assert [float(cell) for cell in said] == [threshold.first / unit, threshold.full / unit, threshold.most]


def test_a_consumer_whose_snapshot_main_does_not_have_takes_all_points_and_is_named() -> None:
    part = parts_of(consumer=ConsumerLag(consumer="report", snapshot="7"))["consumers"]
    assert part.lost == part.most
    assert part.reason == (
        "consumer report has read up to snapshot 7, which main no longer has; let its DAG run, which takes "
        "back what main lost, or remove its tag where nobody reads any more."
    )


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0, "0 hours"), (1, "1 hour"), (1.5, "1.5 hours"), (24, "24 hours"), (47.99, "48 hours"), (168, "7 days")],
)
def test_an_age_is_in_hours_or_days_as_they_are_written(hours: float, text: str) -> None:
    assert age_text(timedelta(hours=hours)) == text
