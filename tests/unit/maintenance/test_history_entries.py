"""Rows of the maintenance history, made of reports as operators return them, and of what nobody should return."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow

from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.reports.history_entry import OUTCOMES, PLANNED, HistoryEntry
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.maintenance import outcomes
from airflow_lake_provider.maintenance.history_entries import HistoryRun, history_entries, orphan_counts_of
from airflow_lake_provider.maintenance.outcomes import TaskOutcome, outcomes_of_run
from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

AT = datetime(2026, 12, 1, 0, 0, 30, tzinfo=UTC)
RUN = HistoryRun(key="0123456789abcdef", dag_id="nightly", run_id="r1", task_id="verdict", try_number=2, at=AT)


def test_a_row_has_what_was_planned_and_what_was_done() -> None:
    before = TableState(snapshot="9223372036854775807", rows=10, data_files=8, data_bytes=800, snapshots=3, manifests=2)
    report = CompactionReport(
        table="shop.orders",
        outcome=Outcome.DONE,
        reason="merged",
        level="major",
        before=before,
        after=TableState(snapshot="6", rows=10, data_files=1, data_bytes=700, snapshots=4, manifests=1),
        seconds={"plan": 1.0, "rewrite": 59.5},
        ended_at=AT - timedelta(minutes=1),
    )
    job = {
        "tasks": [{"action": "compaction", "table": "shop.orders"}],
        "expected": [{"level": "minor", "score": 49, "core_seconds": 12.34, "why": "8 small files"}],
    }
    plain = {"action": report.action, **to_plain(report)}
    (entry,) = history_entries(RUN, outcomes_of_run([job], [plain], []))
    # The action ended in the month before its row was made.
    assert (entry.month, entry.ended_at) == ("2026-11", AT - timedelta(minutes=1))
    assert (entry.seconds, entry.started_at) == (60.5, AT - timedelta(seconds=120.5))
    assert (entry.level, entry.core_seconds_expected, entry.score_before) == ("major", 12.3, 49)
    assert (entry.reasons, entry.cause, entry.error, entry.outcome) == ("8 small files", "merged", None, "done")
    assert (entry.snapshot_before, entry.snapshot_after) == ("9223372036854775807", "6")
    assert (entry.data_files_before, entry.data_files_after, entry.bytes_before, entry.bytes_after) == (8, 1, 800, 700)
    assert (entry.run_key, entry.dag_id, entry.run_id, entry.try_number) == ("0123456789abcdef", "nightly", "r1", 2)


def test_a_dry_run_is_no_success_and_a_lost_application_is_a_failure_with_its_cause() -> None:
    tasks = [{"action": "remove-orphans", "table": "a"}, {"action": "compaction", "table": "b"}]
    orphans: dict[str, Any] = {"orphans": {"data": 2, "metadata": 1}, "orphan_bytes": 9}
    planned = {"action": "remove-orphans", "table": "a", "outcome": "planned", **orphans}
    dry, lost = history_entries(RUN, outcomes_of_run([{"tasks": tasks, "expected": [{}, {}]}], [planned], []))[::-1]
    assert (dry.outcome, dry.orphan_files, dry.orphan_bytes) == ("planned", 3, 9)
    assert (lost.outcome, lost.error, lost.ended_at) == ("failed", "JobFailedError", AT)
    assert (lost.cause or "").startswith("Its Spark application ended without a report")


@pytest.mark.parametrize(
    ("report", "files", "size"),
    [
        ({"orphans": {"data": 2, "metadata": 1}, "orphan_bytes": 90}, 3, 90),
        ({"orphans": {"data": 2, "metadata": 1}, "orphan_bytes": 90, "files_removed": 2}, 1, 30),
        ({"orphans": {"data": 3}, "orphan_bytes": 90, "files_removed": 3}, 0, 0),
        ({"orphans": {}, "orphan_bytes": 0}, 0, None),
        # It has looked for nothing.
        ({"orphans": {}, "mode": "restore", "files_restored": 3}, None, None),
        ({}, None, None),
    ],
)
def test_orphan_files_are_those_that_are_left(report: dict[str, Any], files: int | None, size: int | None) -> None:
    plain = {"action": "remove-orphans", "table": "a", "outcome": "done", "oldest": "2026-11-01T00:00:00+00:00"}
    (row,) = history_entries(RUN, outcomes_of_run([], [], [{**plain, **report}]))
    assert (row.orphan_files, row.orphan_bytes) == (files, size)
    assert (row.oldest_orphan_at is None) == (not files)


def test_the_outcomes_of_rows_are_those_of_runs_and_that_of_dry_runs() -> None:
    assert set(OUTCOMES) == {*outcomes.OUTCOMES, PLANNED}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=600),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["rows", "data_bytes", "a"]), inner),
    max_leaves=4,
)
FIELDS = ["table", "action", "level", "outcome", "reason", "error", "before", "after", "seconds", "ended_at"]
REPORT = st.dictionaries(
    st.sampled_from([*FIELDS, "orphans", "orphan_bytes", "oldest", "files_removed", "mode"]), ANYTHING
)
EXPECTED = st.dictionaries(st.sampled_from(["level", "score", "core_seconds", "why"]), ANYTHING)
TASK = st.builds(
    TaskOutcome,
    table=st.text(),
    action=st.text(),
    outcome=st.sampled_from(outcomes.OUTCOMES),
    error=st.text(),
    reason=st.text(),
    report=REPORT,
    expected=EXPECTED,
)


@given(st.lists(TASK, max_size=3))
def test_whatever_a_report_says_makes_a_row_that_the_table_takes(reports: list[TaskOutcome]) -> None:
    entries = history_entries(RUN, reports)
    columns = OpsTable(catalog=None, name=TableName.parse("a.b"), row=HistoryEntry, kind="").schema  # type: ignore[arg-type]
    plain = [{name: getattr(each, name) for name in HistoryEntry.__dataclass_fields__} for each in entries]
    table = pa.Table.from_pylist(plain, schema=schema_to_pyarrow(columns))
    table.validate(full=True)
    assert table.num_rows == len(reports)
    assert all(len(str(value)) < 6000 for row in table.to_pylist() for value in row.values())


def row(hour: int, table: str = "a", **given_: Any) -> dict[str, Any]:
    """Return a row as it is read back."""
    return {"table_name": table, "ended_at": AT + timedelta(hours=hour), "outcome": "done", "cause": None, **given_}


def test_the_newest_count_of_orphans_counts() -> None:
    counted = [row(hour, orphan_files=files, orphan_bytes=None) for hour, files in ((1, 5), (3, None), (2, 4))]
    (count,) = orphan_counts_of(counted).values()
    assert (count.files, count.bytes, count.counted_at) == (4, 0, AT + timedelta(hours=2))
