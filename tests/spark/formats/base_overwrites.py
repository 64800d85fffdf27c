"""Overwrites of partitions, compared with a list of the rows that a table should have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import AuditFailedError, BadInputError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome, OverwritePartitionsReport
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.formats.suite import FormatSuite, needs
from tests.spark.overwrite_flow import Row, ordered, overwrite, put, rows_of
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, kill

ONE, TWO, THREE = "2026-11-01", "2026-11-02", "2026-11-03"


@dataclass
class Days:
    """Days of a table that are replaced, and their rows in plain Python."""

    flow: Flow
    rows: list[Row] = field(default_factory=list)

    def replace(self, *rows: Row) -> None:
        """Replace the days of some rows, as the table does: each batch has rows of all buckets."""
        replaced = {row[2] for row in rows}
        self.rows = [row for row in self.rows if row[2] not in replaced] + list(rows)

    def foreign(self, day: str) -> Callable[[], None]:
        """Return what inserts a row of a day, as another writer does."""

        def insert() -> None:
            self.flow.spark.sql(f"INSERT INTO {self.flow.table} (id, name, day) VALUES (99, 'foreign', DATE '{day}')")
            self.rows.append((99, "foreign", day))

        return insert

    def add_another(self) -> None:
        """Overwrite another day, as another task does."""
        put(self.flow, "other", *day_of(THREE, "beside"))
        assert overwrite(self.flow, "beside", "other").attempts == 1
        self.replace(*day_of(THREE, "beside"))

    def compact(self) -> None:
        """Rewrite all files."""
        options = "map('rewrite-all', 'true')"
        self.flow.spark.sql(
            f"CALL lake_default.system.rewrite_data_files(table => '{self.flow.table}', options => {options})"
        )


def day_of(day: str | None, version: str) -> list[Row]:
    return [(id_, f"{version}{id_}", day) for id_ in range(8)]


class BackfillSuite(FormatSuite):
    """Days that are loaded in any order, again, and at once."""

    @needs("overwrite-partitions", "compaction")
    def test_days_are_replaced_however_drivers_end_and_meet(self, flow: Flow) -> None:
        by_position = {"write.delete.mode": "merge-on-read"}
        flow.changes["create"] = self.layout(partition_by=["day", "bucket(2, id)"], properties=by_position)
        days = Days(flow)
        steps: list[tuple[list[str | None], str, Callable[[], Any] | None]] = [
            ([ONE, TWO], "commit", None),
            ([None, ONE], "commit", kill),
            ([TWO], "write", kill),
            ([TWO], "commit", days.foreign(ONE)),
            ([ONE], "commit", days.foreign(THREE)),
            ([ONE], "commit", days.add_another),
            ([TWO, ONE], "commit", days.compact),
        ]
        for number, (given, phase, then) in enumerate(steps):
            rows = [row for day in given for row in day_of(day, f"v{number}-")]
            put(flow, "in", *rows)
            run, before = f"run {number}", ordered(days.rows)
            try:
                report = overwrite(flow, run, "in", InterruptedProgress(at=phase, then=then))
            except Killed:
                assert rows_of(flow) == before
                report = overwrite(flow, run, "in")
            days.replace(*rows)
            assert rows_of(flow) == ordered(days.rows), number
            assert (report.outcome, report.rows_written, report.attempts) == (Outcome.APPLIED, len(rows), 1)
            retried = overwrite(flow, run, "in")
            assert (retried.outcome, retried.rows_written) == (Outcome.ALREADY_APPLIED, len(rows))
        # A clearing replaces the days again, whatever somebody has put there, and deletes go with the rows.
        for run, where in (("run 6, cleared", None), ("again", f"day IN ('{ONE}', '{TWO}')")):
            days.foreign(ONE)()
            flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 3 AND day = DATE '{ONE}'")
            cleared = overwrite(flow, run, "in", where=where)
            days.replace(*rows)
            assert rows_of(flow) == ordered(days.rows)
            assert (cleared.rows_replaced, cleared.partitions_replaced, cleared.source_position) == (17, 4, None)
            states = [cleared.before, cleared.after]
            assert [state.delete_files for state in states if state is not None] == [1, 0]


class OverwriteSuite(BackfillSuite):
    """All of overwrites."""

    @needs("overwrite-partitions")
    def test_the_newest_input_of_a_run_stays_whichever_driver_ends_last(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        put(flow, "in", (1, "old", ONE))
        overwrite(flow, "run 0", "in")

        def retry_with_newer() -> None:
            put(flow, "in", (1, "new", ONE), (2, "new", ONE))
            assert overwrite(flow, "run 1", "in").outcome is Outcome.APPLIED

        late = overwrite(flow, "run 1", "in", InterruptedProgress(at="commit", then=retry_with_newer))
        assert (late.outcome, rows_of(flow)) == (Outcome.ALREADY_APPLIED, [(1, "new", ONE), (2, "new", ONE)])
        # What was recognised once is applied again after other input of the run.
        put(flow, "in", (1, "third", ONE))
        assert overwrite(flow, "run 1", "in").outcome is Outcome.APPLIED

    @needs("overwrite-partitions", "schema-evolution")
    def test_a_predicate_says_which_partitions_and_none_is_split(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        put(flow, "in", (1, "a", ONE), (2, "a", TWO), (3, "a", None))
        overwrite(flow, "run 1", "in")
        head, files = flow.head(), flow.data_files()

        def refused(kind: type[Exception], match: str, **changes: Any) -> None:
            with pytest.raises(kind, match=match):
                overwrite(flow, "run 2", "in", **changes)
            assert (flow.head(), flow.data_files()) == (head, files)

        put(flow, "in", (4, "b", ONE), (5, "b", TWO))
        refused(BadInputError, rf"1 rows of the batch are in partitions .*day={TWO}", where=f"day = '{ONE}'")
        refused(InvalidSpecError, r"does not select all rows of partition day=", where="id < 3 OR day IS NULL")
        refused(InvalidSpecError, r"is true for no row", where="1 = 0")
        refused(InvalidSpecError, r"cannot be told of whole partitions", where=f"NOT day <=> DATE '{ONE}'")
        refused(InvalidSpecError, r"refused for a function", where=f"date_trunc('day', day) = '{ONE}'")
        # A day of the predicate without a row in the batch is emptied, and NULL differs from nothing.
        put(flow, "in", (4, "b", ONE))
        report = overwrite(flow, "run 3", "in", where=f"day <> '{THREE}' OR day <> '{TWO}'")
        assert rows_of(flow) == [(4, "b", ONE), (3, "a", None)]
        assert (report.rows_written, report.rows_replaced, report.partitions_replaced) == (1, 2, 2)
        put(flow, "in")
        kept = overwrite(flow, "run 4", "in", where=f"day = '{ONE}'")
        assert (kept.outcome, kept.batch_files) == (Outcome.EMPTY_BATCH, 1)
        emptied = overwrite(flow, "run 4", "in", where=f"day = '{ONE}'", empty="delete")
        assert (emptied.outcome, emptied.rows_replaced, rows_of(flow)) == (Outcome.APPLIED, 1, [(3, "a", None)])
        again = overwrite(flow, "run 5", "in", where=f"day = '{ONE}'", empty="delete")
        assert (again.outcome, "the table has no rows there" in again.reason) == (Outcome.EMPTY_BATCH, True)
        late = overwrite(flow, "run 6", "nowhere", where="true", empty="delete")
        assert (late.outcome, rows_of(flow)) == (Outcome.EMPTY_BATCH, [(3, "a", None)])
        put(flow, "in", (6, "c", TWO))
        assert overwrite(flow, "run 7", "in", where="true").partitions_replaced == 2
        assert rows_of(flow) == [(6, "c", TWO)]

    @needs("overwrite-partitions", "delete-rows")
    def test_rows_of_a_partition_are_replaced_where_that_is_allowed(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        put(flow, "in", *((id_, "a", ONE) for id_ in range(6)), (9, "a", TWO))
        overwrite(flow, "run 1", "in")
        flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 1")
        part: dict[str, Any] = {"where": f"id < 3 OR day = '{TWO}'", "allow_rows": True}
        put(flow, "in", (2, "b", ONE), (7, "b", ONE), (8, "b", TWO))
        head, files = flow.head(), flow.data_files()
        with pytest.raises(BadInputError, match=r"is not true for 1 rows of the batch, such as .*'id': 7"):
            overwrite(flow, "run 2", "in", **part)
        assert (flow.head(), flow.data_files()) == (head, files)
        put(flow, "in", (2, "b", ONE), (8, "b", TWO))
        insert = f"INSERT INTO {flow.table} (id, name, day) VALUES (0, 'foreign', DATE '{ONE}')"
        report = overwrite(
            flow, "run 3", "in", InterruptedProgress(at="commit", then=lambda: flow.spark.sql(insert)), **part
        )
        expected = [(2, "b", ONE), *((id_, "a", ONE) for id_ in (3, 4, 5)), (8, "b", TWO)]
        assert rows_of(flow) == expected
        # 0, 2 and the foreign row by position, and the other day's file.
        assert (report.rows_replaced, overwrite(flow, "run 3", "in", **part).rows_replaced) == (4, 4)

    @needs("overwrite-partitions", "read-changes")
    def test_with_keys_consumers_see_the_rows_alone_that_differ(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        put(flow, "in", *((id_, "a", ONE) for id_ in range(6)), (7, "a", TWO))
        overwrite(flow, "run 1", "in", where="true", keys=("id",))
        before, ids = flow.head(), flow.row_ids()
        put(flow, "in", (0, "a", ONE), (0, "twin", ONE), (1, "b", ONE), *((id_, "a", ONE) for id_ in (2, 3, 8)))
        # What is compared again is that of the same partition; a row that comes back is seen.
        foreign = {
            "other day": (f"INSERT INTO {flow.table} (id, name, day) VALUES (9, 'x', DATE '{TWO}')", 1),
            "same day": (f"DELETE FROM {flow.table} WHERE id = 2", 2),
        }
        for run, (statement, attempts) in foreign.items():
            progress = InterruptedProgress(at="commit", then=partial(flow.spark.sql, statement))
            report = overwrite(flow, run, "in", progress, where=f"day = '{ONE}'", keys=("ID",))
            assert report.attempts == attempts
        kept = flow.row_ids()
        assert {id_: kept[id_] for id_ in (1, 3, 7)} == {id_: ids[id_] for id_ in (1, 3, 7)}
        assert flow.spark.table(flow.table).select("_row_id").distinct().count() == len(rows_of(flow)) == 8
        part: dict[str, Any] = {"where": "id < 2 OR id = 8", "keys": ("id",), "allow_rows": True}
        put(flow, "in", (0, "a", ONE), (0, "twin", ONE), (1, "c", ONE), (8, "a", ONE))
        overwrite(flow, "part", "in", **part)
        changed = read_changes(flow.spark, flow.table, before, None, keys=("id",)).collect()
        assert {(row["_change_type"], row["id"], row["name"]) for row in changed} == {
            *(("upsert", id_, name) for id_, name in ((0, "twin"), (1, "c"), (2, "a"), (8, "a"), (9, "x"))),
            *(("delete", id_, "a") for id_ in (4, 5)),
        }

    @needs("overwrite-partitions")
    def test_partitions_of_bytes_are_replaced_beside_files_of_an_earlier_spec(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        columns = "id BIGINT, name STRING, day DATE, mark BINARY"
        source = Files(path=f"{flow.inbox}/in/*.jsonl", format="json", schema=columns)
        put(flow, "in", (0, "old", ONE))
        overwrite(flow, "run 1", "in", source=source)
        flow.spark.sql(f"ALTER TABLE {flow.table} REPLACE PARTITION FIELD day WITH mark")
        marks = [{"id": id_, "name": "new", "day": TWO, "mark": mark} for id_, mark in ((1, "AQE="), (2, "AgI="))]
        flow.arrive("in/rows.jsonl", *marks)
        with pytest.raises(UnsupportedError, match="1 data files are partitioned by an earlier spec"):
            overwrite(flow, "run 2", "in", source=source)
        assert rows_of(flow) == [(0, "old", ONE)]

    @needs("overwrite-partitions", "read-changes")
    def test_rows_with_maps_and_a_field_named_like_a_type_are_compared(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        columns = "id BIGINT, product STRUCT<variant: STRING>, sizes MAP<STRING, INT>, day DATE"
        source = Files(path=f"{flow.inbox}/in/*.jsonl", format="json", schema=columns)
        (flow.inbox / "in").mkdir(parents=True)
        made = {"id": 1, "product": {"variant": "red"}, "day": ONE}
        flow.arrive("in/rows.jsonl", {**made, "sizes": {"a": 1, "b": 2}})
        part: dict[str, Any] = {"source": source, "where": f"day = '{ONE}'", "keys": ("id",)}
        overwrite(flow, "run 1", "in", **part)
        before = flow.head()
        flow.arrive("in/rows.jsonl", {**made, "sizes": {"b": 2, "a": 1}})
        assert overwrite(flow, "run 2", "in", **part).rows_written == 1
        assert read_changes(flow.spark, flow.table, before, None, keys=("id",)).collect() == []
        flow.arrive("in/rows.jsonl", {**made, "sizes": {"b": 1, "a": 1}})
        overwrite(flow, "run 3", "in", **part)
        (changed,) = read_changes(flow.spark, flow.table, before, None, keys=("id",)).collect()
        assert (changed["id"], changed["sizes"]) == (1, {"a": 1, "b": 1})

    @needs("overwrite-partitions", "audits", "branches")
    def test_audits_branches_and_queries_go_with_it(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["day"])
        put(flow, "in", (1, "a", ONE), (1, "twin", ONE), (2, "a", TWO))
        first = overwrite(flow, "run 1", "in", deduplicate_by=("id",))
        assert (first.rows_written, first.duplicates_in_batch) == (2, 1)
        audits = {"one day": f"SELECT * FROM audited WHERE day = '{TWO}'"}
        put(flow, "in", (3, "b", TWO))
        with pytest.raises(AuditFailedError, match=r"'one day' \(1 rows\)"):
            overwrite(flow, "run 2", "in", audits=audits)
        assert rows_of(flow) == [(1, "a", ONE), (2, "a", TWO)]
        put(flow, "in", (3, "b", ONE))
        insert = f"INSERT INTO {flow.table} (id, name, day) VALUES (4, 'foreign', DATE '{ONE}')"
        progress = InterruptedProgress(at="audit", then=lambda: flow.spark.sql(insert))
        report = overwrite(flow, "run 3", "in", progress, audits={"known": "SELECT * FROM batch WHERE name IS NULL"})
        assert (report.audit_runs, rows_of(flow)) == (2, [(3, "b", ONE), (2, "a", TWO)])
        put(flow, "in", (5, "c", TWO))
        assert overwrite(flow, "run 4", "in", branch="candidate").outcome is Outcome.APPLIED
        assert overwrite(flow, "run 4", "in", branch="candidate").outcome is Outcome.ALREADY_APPLIED
        assert rows_of(flow, "candidate") == [(3, "b", ONE), (5, "c", TWO)]
        assert rows_of(flow) == [(3, "b", ONE), (2, "a", TWO)]

    @needs("overwrite-partitions")
    def test_a_table_without_partitions_or_with_earlier_ones_is_refused_where_rows_would_stay(self, flow: Flow) -> None:
        put(flow, "in", (1, "a", ONE), (2, "a", TWO))
        with pytest.raises(InvalidSpecError, match=r"has no partitions; where='true'"):
            overwrite(flow, "run 1", "in", create=self.layout())
        overwrite(flow, "run 1", "in", where="true")
        flow.spark.sql(f"ALTER TABLE {flow.table} ADD PARTITION FIELD day")
        with pytest.raises(UnsupportedError, match=r"1 data files are partitioned by an earlier spec .* level='full'"):
            overwrite(flow, "run 2", "in")
        put(flow, "in", (3, "b", THREE))
        assert overwrite(flow, "run 3", "in").outcome is Outcome.APPLIED
        put(flow, "in", (3, "c", THREE))
        assert overwrite(flow, "run 4", "in").rows_replaced == 1
        assert overwrite(flow, "run 5", "in", where="true").rows_replaced == 3
        assert rows_of(flow) == [(3, "c", THREE)]
        # Files that were written by days would not take the place of those by days and buckets.
        by_bucket = f"ALTER TABLE {flow.table} ADD PARTITION FIELD bucket(2, id)"
        put(flow, "in", (4, "d", ONE))
        progress = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(by_bucket))
        assert overwrite(flow, "run 6", "in", progress).attempts == 2
        assert {file.spec_id for file in flow.spark.table(f"{flow.table}.files").collect()} == {1, 2}

    @needs("overwrite-partitions")
    def test_hidden_partitions_are_told_by_times_also_after_they_became_finer(self, flow: Flow) -> None:
        flow.changes["create"] = self.layout(partition_by=["days(at)"])
        source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema="id BIGINT, at TIMESTAMP")
        day: dict[str, Any] = {"where": f"at >= '{ONE}' AND at < '{TWO}'"}

        def load(run: str, id_: int, at: str, **changes: Any) -> OverwritePartitionsReport:
            flow.arrive("rows.jsonl", {"id": id_, "at": at})
            return overwrite(flow, run, "", source=source, **changes)

        load("run 1", 1, f"{ONE}T23:59:59.999999Z", **day)
        with pytest.raises(InvalidSpecError, match=f"at_day={ONE}"):
            load("run 2", 2, f"{ONE}T12:00:00Z", where=f"at >= '{ONE} 06:00:00' AND at < '{TWO}'")
        flow.spark.sql(f"ALTER TABLE {flow.table} REPLACE PARTITION FIELD days(at) WITH hours(at)")
        assert load("run 3", 3, f"{TWO}T00:00:00Z").rows_replaced == 0
        with pytest.raises(UnsupportedError, match=f"at_day={ONE}"):
            load("run 4", 4, f"{ONE}T23:30:00Z")
        assert load("run 5", 5, f"{ONE}T12:00:00Z", **day).rows_replaced == 1
        assert sorted(row["id"] for row in flow.records()) == [3, 5]
