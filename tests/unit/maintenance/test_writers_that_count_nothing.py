"""Tables whose writers leave counts out of summaries, which the spec asks for in none but the operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.head_counts import HeadCounts
from airflow_lake_provider.maintenance.health import TableHealth, health_of
from airflow_lake_provider.maintenance.policy import limits_of
from airflow_lake_provider.maintenance.tuning import write_rate
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.unit.maintenance.plans_of_numbers import GIB, MIB, in_short, plan, policy

AFTER_FIVE: dict[str, Any] = {"compaction": {"after_small_files": 5}}
Summaries = list[dict[str, str]]
Changed = Callable[[Callable[[Summaries], None]], LoadedIcebergTable]


@pytest.fixture
def changed(tmp_path: Path) -> Iterator[Changed]:
    """Return a table of twelve files, a commit for each, whose summaries are changed, the oldest first."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    for number in range(12):
        table.append(pa.table({"id": [number]}))
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())

    def run(change: Callable[[Summaries], None]) -> LoadedIcebergTable:
        change([each["summary"] for each in metadata["snapshots"]])
        (tmp_path / "changed.metadata.json").write_text(json.dumps(metadata))
        return LoadedIcebergTable(StaticTable.from_metadata(f"file://{tmp_path}/changed.metadata.json"))

    yield run
    catalog.close()


def without_counts(summaries: Summaries) -> None:
    for each in summaries:
        each.clear()
        each["operation"] = "append"


def judged(table: LoadedIcebergTable, **given: Any) -> TableHealth:
    return health_of(table, datetime.now(UTC), limits_of(policy(**given)))


def test_small_files_that_no_commit_counts_make_a_compaction_due_by_growth(changed: Changed) -> None:
    health = judged(changed(without_counts), **AFTER_FIVE)
    assert (health.growth.commits, health.growth.small_files, health.growth.delete_files) == (12, 12, 0)
    assert in_short(plan(health, **AFTER_FIVE)) == ["compaction minor new-small-files"]


def test_a_total_of_a_later_writer_hides_no_commit_that_counted_nothing(changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        head = dict(summaries[-1])
        without_counts(summaries)
        # As a writer that begins to count at nothing would have them.
        summaries[-1].update(head, **{"total-data-files": "1", "total-files-size": str(600 * MIB)})

    assert in_short(plan(judged(changed(change), **AFTER_FIVE), **AFTER_FIVE)) == ["compaction minor new-small-files"]


def test_what_was_compacted_since_is_not_counted_again(changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        without_counts(summaries)
        summaries[-2].update({"operation": "replace", "deleted-data-files": "11", "added-data-files": "1"})
        summaries[-1]["added-data-files"] = "1"

    health = judged(changed(change), **AFTER_FIVE)
    assert health.manifests_read
    assert in_short(plan(health, **AFTER_FIVE)) == []


@pytest.mark.parametrize("total", ["data-files", "files-size"])
def test_a_compaction_is_planned_by_manifests_where_a_total_is_missing(total: str, changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        summaries[-1].pop(f"total-{total}")

    # Too few to be merged, unless together they fill a file.
    rules: dict[str, Any] = {"min_input_files": 50, "target_file_size": 4 * 1024}
    spec = CompactionSpec(catalog="lake", table="shop.orders", run=RunIdentity.of("dag"), **rules)
    report = changed(change).plan_compaction(spec)
    assert (report.outcome, report.files_rewritten) == (Outcome.PLANNED, 12)


@pytest.mark.parametrize(("listed", "level"), [(None, "minor"), ((12, 3), "major")])
def test_deletes_that_no_summary_counts_are_looked_for_where_files_of_deletes_are_listed(
    listed: tuple[int, int] | None, level: str, changed: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = changed(without_counts)
    if listed is not None:
        monkeypatch.setattr(LoadedIcebergTable, "listed_files", lambda *_: listed)
    report = table.plan_compaction(CompactionSpec(catalog="lake", table="shop.orders", run=RunIdentity.of("dag")))
    assert report.level == level


@pytest.mark.parametrize(
    "total", ["data-files", "files-size", "records", "delete-files", "position-deletes", "equality-deletes"]
)
def test_manifests_are_read_where_one_total_is_missing(total: str, changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        # Nothing else is worth a look.
        summaries[-1].update({"total-files-size": str(40 * GIB), "added-files-size": str(GIB)})
        for each in summaries:
            each["added-files-size"] = str(GIB)
            each.pop(f"total-{total}")

    health = judged(changed(change))
    assert (health.suspected, health.manifests_read) == (("no-summary",), True)


def counted_from_zero(summaries: Summaries, since: int = 10) -> None:
    """Count totals as Iceberg does for the first snapshot of a branch, which main was moved on to."""
    for number, each in enumerate(summaries[since:], 1):
        each.update({f"total-{kind}": str(number) for kind in ("data-files", "records")})
        each["total-files-size"] = str(600 * MIB * number)


@pytest.mark.parametrize("since", [1, 10, 11])
def test_manifests_are_read_where_a_commit_counted_its_totals_from_zero(since: int, changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        for number, each in enumerate(summaries, 1):
            each.update({"added-files-size": str(GIB), "total-files-size": str(GIB * number)})
        counted_from_zero(summaries, since)

    health = judged(changed(change))
    assert (health.suspected, health.manifests_read) == (("no-summary",), True)
    assert health.files is not None
    assert health.files.data_files == 12


def test_no_manifest_is_read_where_totals_are_said_and_what_commits_added_is_not(changed: Changed) -> None:
    def change(summaries: Summaries) -> None:
        for number, each in enumerate(summaries, 1):
            each.pop("added-data-files")
            each.update({"total-data-files": str(number), "total-files-size": str(GIB * number)})

    health = judged(changed(change))
    assert (health.suspected, health.manifests_read) == ((), False)


def test_a_compaction_is_planned_by_manifests_where_totals_were_counted_from_zero(changed: Changed) -> None:
    spec = CompactionSpec(catalog="lake", table="shop.orders", run=RunIdentity.of("dag"))

    def change(summaries: Summaries) -> None:
        counted_from_zero(summaries)
        summaries[-1]["total-files-size"] = "2000"

    report = changed(change).plan_compaction(spec)
    assert (report.outcome, report.files_rewritten) == (Outcome.PLANNED, 12)


@pytest.mark.parametrize(
    ("parent", "total", "added", "lacks"),
    [(None, 3, 3, False), ("1", 3, 3, True), ("1", 4, 3, False), ("1", 0, 0, False)],
    ids=["first", "counted-from-zero", "goes-on", "empty"],
)
def test_the_oldest_commit_that_is_left_has_counted_from_zero_where_all_files_are_its_own(
    parent: str | None, total: int, added: int, lacks: bool
) -> None:
    totals = ("data-files", "files-size", "records", "delete-files", "position-deletes", "equality-deletes")
    summary = {**{f"total-{each}": "0" for each in totals}, "total-data-files": f"{total}"}
    oldest = Snapshot(id="2", parent=parent, at=0, summary={**summary, "added-data-files": f"{added}"})
    newest = Snapshot(id="3", parent="2", at=1, summary=summary)
    assert HeadCounts.of([newest, oldest], 512 * MIB).lacks_totals is lacks
    for more in ({"deleted-data-files": "1"}, {"manifests-kept": "0", "manifests-replaced": "0"}):
        loaded = replace(oldest, summary={**oldest.summary, **more})
        assert not HeadCounts.of([newest, loaded], 512 * MIB).lacks_totals
    for more in (
        {"manifests-kept": "0", "manifests-replaced": "2"},
        {"manifests-kept": "2", "manifests-replaced": "0"},
    ):
        on_branch = replace(oldest, summary={**oldest.summary, **more})
        assert HeadCounts.of([newest, on_branch], 512 * MIB).lacks_totals is lacks


@pytest.mark.parametrize(("kept", "lacks"), [("11", True), ("4", True), ("3", False), (None, False)])
def test_a_head_that_keeps_more_manifests_than_it_counts_files_has_counted_from_zero(
    kept: str | None, lacks: bool
) -> None:
    totals = ("data-files", "files-size", "records", "delete-files", "position-deletes", "equality-deletes")
    summary = {**{f"total-{each}": "0" for each in totals}, "total-data-files": "2", "total-delete-files": "1"}
    # The commit that began at zero is expired.
    oldest = Snapshot(id="2", parent="1", at=0, summary={**summary, "added-data-files": "1"})
    head = Snapshot(id="3", parent="2", at=1, summary={**summary, **({} if kept is None else {"manifests-kept": kept})})
    assert HeadCounts.of([head, oldest], 512 * MIB).lacks_totals is lacks


@pytest.mark.parametrize("counts", [{}, {"added-records": "5", "total-records": "90"}], ids=["none", "rows alone"])
def test_nothing_is_tuned_by_commits_that_do_not_say_what_they_added(counts: dict[str, str]) -> None:
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    summary = {"operation": "append", **counts}
    history = [
        Snapshot(
            id=str(hours),
            parent=str(hours + 1),
            at=round((now - timedelta(hours=hours)).timestamp() * 1000),
            summary=summary,
        )
        for hours in range(0, 24 * 6, 2)
    ]
    assert write_rate(history, 512 * MIB, now) is None
