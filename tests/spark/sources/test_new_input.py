"""A table remembers its sources, though a source is read in another way and others clean the table."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied import source_position
from airflow_lake_provider.contracts.applied.positions import FilesPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files, OnSourceChange, Source
from airflow_lake_provider.contracts.errors import BadInputError, CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import (
    position_properties,
    read_position,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, row

SUMS: dict[str, Any] = {
    "merge_engine": Aggregation(aggregates={"n": "sum"}),
    "missing_columns": MissingColumns.KEEP,
    "delete_when": None,
}


def source_of(flow: Flow, path: str = "*.jsonl", **changes: Any) -> Source:
    of_all = {name: changes.pop(name) for name in ("name", "on_source_change") if name in changes}
    query = changes.pop("query", None)
    files = Files(**{"path": f"{flow.inbox}/{path}", "format": "json", "schema": SCHEMA, **changes})
    return replace(files if query is None else Query(query, over=files), **{"name": "inbox", **of_all})


def lists(flow: Flow) -> list[Path]:
    return sorted(metadata(flow).glob("_lake-position-*"))


def metadata(flow: Flow) -> Path:
    return flow.folder().parent / "metadata"


def test_a_sum_counts_a_file_once_whatever_way_it_is_read(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 10))
    flow.apply("run 1", source=source_of(flow), **SUMS)
    changed = {
        "a space less": source_of(flow, schema=SCHEMA.replace(", ", ",")),
        "a column more": source_of(flow, schema=f"{SCHEMA}, note STRING"),
        "an option": source_of(flow, options={"allowComments": "true"}),
        "a prefix": Files(f"file://{flow.inbox}/*.jsonl", schema=SCHEMA, name="inbox"),
        "another glob": source_of(flow, path=""),
        "a query": source_of(flow, query="SELECT * FROM source"),
    }
    said = {}
    for name, source in changed.items():
        report = flow.apply(f"run {name}", source=source, **SUMS)
        assert report.outcome is Outcome.NOTHING_NEW, name
        said[name] = report.reason
    assert flow.rows() == {1: ("a", 10)}
    assert "changed" not in said["a space less"] + said["a prefix"] + said["another glob"]
    assert "schema of the source changed" in said["a column more"]
    assert "options of the source changed" in said["an option"]
    flow.arrive("2.jsonl", row(1, "b", 5))
    report = flow.apply("run 2", source=changed["an option"], **SUMS)
    assert (report.batch_files, report.source_position) == (1, "inbox=2")
    assert "options of the source changed" in report.reason
    assert flow.rows() == {1: ("b", 15)}
    assert "changed" not in flow.apply("run 3", source=changed["an option"], **SUMS).reason


def test_a_path_of_a_day_leaves_one_property_and_a_cleared_day_is_applied_once(flow: Flow) -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    for number, day in enumerate(days):
        (flow.inbox / day).mkdir(parents=True)
        flow.arrive(f"{day}/1.jsonl", row(1, day, number + 1))
        flow.apply(f"run {day}", source=source_of(flow, f"{day}/*.jsonl"), **SUMS)
    properties = flow.loaded().properties
    assert [name for name in properties if name.startswith("lake.position.")] == ["lake.position.inbox"]
    for attempt in ("cleared", "another clearing"):
        again = flow.apply(f"run {days[0]} {attempt}", source=source_of(flow, f"{days[0]}/*.jsonl"), **SUMS)
        assert (again.outcome, again.committed) == (Outcome.NOTHING_NEW, ())
    assert flow.rows() == {1: (days[-1], 6)}
    flow.arrive(f"{days[0]}/2.jsonl", row(1, "late", 10))
    late = flow.apply(f"run {days[0]} later", source=source_of(flow, f"{days[0]}/*.jsonl"), **SUMS)
    assert (late.batch_files, flow.rows()) == (1, {1: ("late", 16)})
    # The table has forgotten the run keys of these days.
    forgotten = "'lake.run-keys-dropped-before' = '2000', 'lake.recent-run-keys' = ''"
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ({forgotten})")
    cleared = RunIdentity.of("dag", f"run {days[0]}", "task", try_number=2, run_after=datetime.fromtimestamp(1999, UTC))
    for files, expected in ((0, 16), (1, 26)):
        again = flow.apply(identity=cleared, source=source_of(flow, f"{days[0]}/*.jsonl"), **SUMS)
        assert (again.batch_files or 0, flow.rows()) == (files, {1: ("late", expected)})
        flow.arrive(f"{days[0]}/3.jsonl", row(1, "late", 10))


def test_a_source_that_changed_is_replayed_once_or_refused_as_asked(flow: Flow) -> None:
    (flow.inbox / "other").mkdir(parents=True)
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.arrive("other/2.jsonl", row(2, "b", 1))
    for path in ("*.jsonl", "other/*.jsonl"):
        flow.apply(f"run {path}", source=source_of(flow, path))
    twice = "SELECT id, name, n * 2 AS n, op FROM source"
    with pytest.raises(BadInputError, match="query of source inbox changed"):
        flow.apply("run 3", source=source_of(flow, query=twice, on_source_change=OnSourceChange.FAIL))
    replay = source_of(flow, query=twice, on_source_change=OnSourceChange.REPLAY)
    report = flow.apply("run 4", source=replay)
    assert (report.outcome, report.batch_files) == (Outcome.APPLIED, 1)
    assert "query of the source changed" in report.reason
    assert flow.apply("run 5", source=replay).outcome is Outcome.NOTHING_NEW
    other = source_of(flow, "other/*.jsonl", query=twice, on_source_change=OnSourceChange.REPLAY)
    assert flow.apply("run 6", source=other).outcome is Outcome.APPLIED
    assert flow.apply("run 7", source=other).outcome is Outcome.NOTHING_NEW
    assert flow.rows() == {1: ("a", 2), 2: ("b", 2)}


def test_a_table_is_read_again_after_its_query_changed_only_where_that_is_asked_for(flow: Flow) -> None:
    flow.spark.sql("CREATE NAMESPACE IF NOT EXISTS positions")
    flow.spark.sql(f"CREATE TABLE {flow.table}_source USING iceberg AS SELECT 1L AS id, 'a' AS name, 1 AS n, 'u' AS op")
    source = Query("SELECT * FROM source", over=LakeTable(f"{flow.table}_source"))
    flow.apply("run 1", source=source)
    changed = replace(source, sql="SELECT id, upper(name) AS name, n, op FROM source")
    report = flow.apply("run 2", source=changed)
    assert (report.outcome, "query of the source changed" in report.reason) == (Outcome.NOTHING_NEW, True)
    report = flow.apply("run 3", source=replace(changed, on_source_change=OnSourceChange.REPLAY))
    assert (report.outcome, flow.rows()) == (Outcome.APPLIED, {1: ("A", 1)})


def test_files_that_another_name_has_consumed_are_not_counted_twice(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 10))
    flow.apply("run 1", source=source_of(flow), **SUMS)
    renamed = source_of(flow, name="renamed")
    with pytest.raises(BadInputError, match="the source name='inbox'"):
        flow.apply("run 2", source=renamed, **SUMS)
    assert flow.rows() == {1: ("a", 10)}
    report = flow.apply("run 3", source=renamed)
    assert any("under the name inbox" in warning for warning in report.warnings)
    flow.arrive("2.jsonl", row(1, "b", 1))
    report = flow.apply("run 4", source=renamed, **SUMS)
    assert (report.outcome, report.batch_files, report.warnings) == (Outcome.APPLIED, 1, ())


def test_a_file_that_another_name_consumes_at_the_same_time_is_not_counted_twice(flow: Flow) -> None:
    for number, name in ((1, "inbox"), (2, "renamed")):
        flow.arrive(f"{number}.jsonl", row(1, "a", 10))
        flow.apply(f"run {number}", source=source_of(flow, f"{number}.jsonl", name=name), **SUMS)
    with pytest.raises(BadInputError, match="the source name='inbox'"):
        flow.apply("run 3", source=source_of(flow, "1.jsonl", name="renamed"), **SUMS)
    flow.arrive("3.jsonl", row(1, "b", 1))
    flow.arrive("4.jsonl", row(1, "c", 5))
    third, fourth = (partial(source_of, flow, f"{number}.jsonl") for number in (3, 4))
    first = InterruptedProgress(at="commit", then=lambda: flow.apply("run 4", source=third(), **SUMS))
    with pytest.raises(BadInputError, match="the source name='inbox'"):
        flow.apply("run 5", source=third(name="renamed"), progress=first, **SUMS)
    flow.arrive("5.jsonl", row(2, "d", 1))
    fifth = source_of(flow, "5.jsonl")
    other = InterruptedProgress(at="commit", then=lambda: flow.apply("run 6", source=fifth, **SUMS))
    assert flow.apply("run 7", source=fourth(name="renamed"), progress=other, **SUMS).attempts == 1
    assert flow.rows() == {1: ("c", 26), 2: ("d", 1)}


def test_a_file_put_back_under_its_name_with_its_old_time_is_applied_when_asked_to(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "wrong"), at=1_000)
    flow.apply("run 1")
    flow.arrive("1.jsonl", row(1, "right"), at=1_000)
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    flow.apply("run 2", on_repeat=OnRepeat.APPLY)
    assert flow.rows() == {1: ("right", 0)}


def test_a_long_list_of_files_outlives_the_cleaning_of_others_and_a_lost_one_has_a_way_out(flow: Flow) -> None:
    for number in range(260):
        flow.arrive(f"{number:03}.jsonl", row(number, "a"))
    flow.apply("run 1")
    assert all(len(value) <= 3_500 for value in flow.loaded().properties.values())
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    orphan = clean(flow)
    assert not orphan.exists(), "the cleaner removed nothing, so this proves nothing"
    for number in (260, 261, 262):
        flow.arrive(f"{number}.jsonl", row(number, "b"))
        assert flow.apply(f"run {number}").batch_files == 1
    assert len(lists(flow)) == 2, "superseded lists were not removed"
    assert len(flow.rows()) == 264
    for file in lists(flow):
        file.unlink()
    with pytest.raises(BadInputError, match="on_repeat='apply'") as refused:
        flow.apply("run 4")
    assert "_lake-position-inbox-" in str(refused.value)
    assert flow.apply("run 4", on_repeat=OnRepeat.APPLY).batch_files == 263
    assert flow.apply("run 5").outcome is Outcome.NOTHING_NEW
    # What only the lost list could tell is neither applied nor skipped.
    (flow.inbox / "before").mkdir()
    flow.arrive("before/1.jsonl", row(1, "old"), at=1_000)
    with pytest.raises(BadInputError, match=r"1 of 1 files .* may have been applied"):
        flow.apply("run 6", source=source_of(flow, "before/*.jsonl"))
    flow.arrive("before/2.jsonl", row(2, "later"), at=int(time.time()) + 5)
    assert flow.apply("run 7", source=source_of(flow, "before/2.jsonl")).outcome is Outcome.APPLIED


def clean(flow: Flow) -> Path:
    """Do to the table what other people's maintenance does, and return a file that is a real orphan."""
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (-1, 'foreign', 0)")
    orphan = metadata(flow) / "orphan.bin"
    orphan.write_bytes(b"x")
    past = time.time() - timedelta(days=3).total_seconds()
    for path in metadata(flow).parent.rglob("*"):
        os.utime(path, (past, past))
    now = datetime.now(UTC)
    cut = f"TIMESTAMP '{now - timedelta(days=1, minutes=1):%F %T}'"
    # The text has whole seconds, and the snapshots may be younger than the last of them.
    soon = now + timedelta(minutes=1)
    call = f"CALL system.{{}}(table => '{flow.table}'{{}})".format
    flow.spark.sql(call("expire_snapshots", f", older_than => TIMESTAMP '{soon:%F %T}', retain_last => 1"))
    flow.spark.sql(call("compute_table_stats", ""))
    # A listing by prefix finds hidden names by comparing texts, and Hadoop writes file:/// as file:/.
    by_prefix = f", prefix_listing => true, location => 'file:{metadata(flow).parent}'"
    for how in ("", by_prefix):
        flow.spark.sql(call("remove_orphan_files", f", older_than => {cut}{how}"))
    assert len(flow.loaded().metadata.snapshots) == 1
    return orphan


class TableBehind(IcebergTable):
    """A driver that has read the metadata before two other commits, until it reads it again."""

    before: dict[str, str] | None = None

    def properties(self) -> dict[str, str]:
        return self.before if self.before is not None else super().properties()

    def refresh(self) -> IcebergTable:
        self.before = None
        return super().refresh()


@pytest.fixture
def short_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any list of files is too long for a property."""
    monkeypatch.setattr(source_position, "MAX_VALUE_CHARACTERS", 50)


@pytest.mark.usefixtures("short_properties")
def test_a_list_of_a_refused_commit_is_removed_and_one_of_an_unknown_outcome_stays(flow: Flow) -> None:
    strategies = [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE]
    behind = TableBehind(flow.spark, "lake_default", TableName.parse(flow.table))
    for number, strategy in enumerate(strategies):
        flow.arrive(f"{number}.jsonl", row(number, "a"))
        retry = partial(flow.apply, f"run {number}", strategy=strategy)
        at = "publish" if strategy is UpsertStrategy.MERGE else "commit"
        late = flow.apply(f"run {number}", progress=InterruptedProgress(at=at, then=retry), strategy=strategy)
        assert late.outcome is Outcome.ALREADY_APPLIED
        assert len(lists(flow)) == min(2, number + 1), strategy
        behind.before = behind.before or flow.loaded().properties
    assert len(read_position(behind, "inbox").files.files or ()) == 3, (
        "a list that was superseded meanwhile was not found"
    )
    table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
    files = [InputFile("s3://in/new", 1, "1")]
    known = FilesPosition().next(files * 9, datetime.now(UTC), None)
    position = SourcePosition(generation=8).moved(known, {"query": "x" * 99})
    commit = DataCommit(action="upsert", run_key="r", base=None, positions={"other": position})
    for error, left in ((CommitConflictError, 0), (UnknownOutcomeError, 1)):
        with pytest.raises(error), position_properties(table, commit):
            raise error
        assert sum("other" in file.name for file in lists(flow)) == left
    with position_properties(table, replace(commit, branch="audit")) as properties:
        assert properties == {}
    assert sum("other" in file.name for file in lists(flow)) == 1
