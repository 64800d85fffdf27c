"""Every action that commits more than once, or once beside something else, on a small table of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from sqlalchemy.exc import DBAPIError

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import JobFailedError
from airflow_lake_provider.contracts.reports.job import IncrementalReport, JobReport, Outcome
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.metadata_changes import (
    CreateTagSpec,
    DropTagSpec,
    PublishBranchSpec,
    RollbackSpec,
    TableUpgradeSpec,
)
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.planning.nothing_new import is_guard_left, nothing_new
from airflow_lake_provider.spark_jobs.failures import lake_errors
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry
from tests.spark.equality_delete import delete_by_equality
from tests.spark.maintained_table import CATALOG, MaintainedTable
from tests.spark.metadata_change_flow import carry_out
from tests.spark.sources.debezium.event_writer import SourceTable
from tests.spark.upsert_flow import Flow, row
from tests.table_facts import facts

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RUN = RunIdentity.of("dag", "run", "task", "-1")
POSITIVE = Audits(queries={"no negative n": "SELECT * FROM audited WHERE n < 0"})


@dataclass(frozen=True, kw_only=True)
class Action:
    """An action that is due.

    :param run: carry it out as its operator does, from the worker's plan on; each call is a try of one run.
    :param tables: that it may change, the target first.
    :param branch: of the target that it writes to.
    """

    run: Callable[[], JobReport]
    flow: Flow
    tables: tuple[str, ...]
    branch: str = "main"

    def target(self) -> Table | None:
        try:
            return self.flow.catalog().load_table(self.tables[0])
        except NoSuchTableError:
            return None

    def left(self) -> dict[str, Any]:
        """Return what a table holds, by PyIceberg: nothing that differs between two tables or two moments."""
        return {str(place): _left(self.flow, name) for place, name in enumerate(self.tables)}


def _left(flow: Flow, name: str) -> dict[str, Any] | None:
    try:
        table = flow.catalog().load_table(name)
    except NoSuchTableError:
        return None
    head = table.current_snapshot()
    manifests = [] if head is None else head.manifests(table.io)
    files = {
        content: sum(
            (m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests if m.content == content
        )
        for content in ManifestContent
    }
    return {
        "rows": {_named(ref): _rows(flow, table, at.snapshot_id) for ref, at in table.metadata.refs.items()},
        "columns": [(column.name, str(column.field_type)) for column in table.schema().fields],
        "version": table.format_version,
        "properties": {_UUID.sub("", name) for name in table.properties if name.startswith("lake.")},
        "manifests": min(1, len(manifests)) if name.endswith("__deleted_keys") else len(manifests),
        "files": {} if name.endswith("__deleted_keys") else files,
    }


def _named(ref: str) -> str:
    """Return a name without what makes each stage branch another."""
    return "_".join(ref.split("_")[:2]) if ref.startswith("lake_") else ref


def _rows(flow: Flow, table: Table, snapshot: int) -> list[str]:
    head = table.snapshot_by_id(snapshot)
    if head is not None and head.summary is not None and head.summary.get("total-equality-deletes", "0") != "0":
        # PyIceberg reads none of those.
        read = flow.spark.sql(f"SELECT * FROM {'.'.join(table.name()[-2:])} VERSION AS OF {snapshot}")
        found = [each.asDict(recursive=True) for each in read.collect()]
    else:
        found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    texts = [str({column: value for column, value in each.items() if column != "_deleted_at"}) for each in found]
    # The second table of ordering="key" may hold a delete twice.
    return sorted(set(texts) if table.name()[-1].endswith("__deleted_keys") else texts)


def _new_flow(spark: SparkSession, folder: Path, **changes: Any) -> Flow:
    return Flow(spark, f"several.t_{uuid4().hex[:8]}", folder / uuid4().hex, changes)


Due = Callable[[SparkSession, Path], Action]


def _driven(flow: Flow, spec: JobSpec, *sides: str) -> Action:
    run = partial(dispatch_action, flow.spark, spec, Progress())
    branch = getattr(spec, "branch", None) or "main"
    return Action(run=run, flow=flow, tables=(flow.table, *sides), branch=branch)


def _upsert(flow: Flow, **changes: Any) -> Action:
    """The second batch: it changes, deletes and adds a row."""
    flow.arrive("1.jsonl", *(row(key, "a") for key in range(4)))
    flow.apply("run 0")
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b", op="d"), row(7, "b"))
    return _driven(flow, flow.spec(**changes))


def by(strategy: UpsertStrategy, **changes: Any) -> Due:
    return lambda spark, folder: _upsert(_new_flow(spark, folder), strategy=strategy, **changes)


def creating(spark: SparkSession, folder: Path) -> Action:
    flow = _new_flow(spark, folder)
    flow.arrive("1.jsonl", *(row(key, "a") for key in range(4)))
    return _driven(flow, flow.spec())


def altering(spark: SparkSession, folder: Path) -> Action:
    """A batch that adds a column and widens two."""
    flow = _new_flow(spark, folder)
    flow.make_table("id BIGINT, name STRING, n INT, m INT", "TBLPROPERTIES ('format-version'='3')")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 1, 1), (2, 'a', 2, 2)")
    source = Files(
        path=f"{flow.inbox}/*.jsonl", format="json", schema="id BIGINT, name STRING, n BIGINT, m BIGINT, p INT"
    )
    flow.changes.update(source=source, delete_when=None, exclude_columns=())
    flow.arrive("1.jsonl", {"id": 1, "name": "b", "n": 2**40, "m": 2**40, "p": 5})
    return _driven(flow, flow.spec())


def by_key(spark: SparkSession, folder: Path) -> Action:
    """Events with ordering="key", whose deleted keys are kept in a second table."""
    return _of_events(spark, folder, EventOrdering.KEY, cut=False)


def cut(spark: SparkSession, folder: Path) -> Action:
    """A key change of a row that the batch changed first, whose create comes later: the old row is kept beside main."""
    return _of_events(spark, folder, None, cut=True)


def _of_events(spark: SparkSession, folder: Path, ordering: EventOrdering | None, *, cut: bool) -> Action:
    flow, source = _new_flow(spark, folder), SourceTable()
    read = Debezium(
        path=f"{flow.inbox}/*.jsonl", table="public.items", schema="id BIGINT, n INT, note STRING", ordering=ordering
    )
    flow.changes.update(source=read, delete_when=None, exclude_columns=())
    flow.inbox.mkdir(parents=True)
    for key in range(1, 4):
        source.insert(key, key, "long one")
    (flow.inbox / "1.jsonl").write_text("\n".join(source.take_lines()) + "\n")
    flow.apply("run 0")
    source.update(1, 5, "long other")
    source.delete(2)
    source.move(1, 4, 4)
    lines = source.take_lines()
    (flow.inbox / "2.jsonl").write_text("\n".join(lines[:-1] if cut else lines) + "\n")
    return _driven(flow, flow.spec(), *(() if ordering is None else (f"{flow.table}__deleted_keys",)))


def incremental(*, is_first: bool, **changes: Any) -> Due:
    def due(spark: SparkSession, folder: Path) -> Action:
        source, target = _new_flow(spark, folder), _new_flow(spark, folder)
        source.arrive("1.jsonl", *(row(key, "a") for key in range(4)))
        source.apply("run 0")
        if not is_first:
            _incremental(source, target, RunIdentity.of("dag", "run 0", "task", "-1"), **changes)
            source.arrive("2.jsonl", row(1, "b"), row(2, "b", op="d"), row(7, "b"))
            source.apply("run 1")
        run = partial(_incremental, source, target, RUN, **changes)
        return Action(run=run, flow=target, tables=(target.table, source.table))

    return due


def _incremental(source: Flow, target: Flow, by: RunIdentity, **changes: Any) -> JobReport:
    spec = IncrementalSpec(
        catalog=CATALOG,
        table=target.table,
        run=by,
        source=source.table,
        consumer="revenue",
        keys=("id",),
        to_snapshot=str(source.loaded().metadata.current_snapshot_id),
        query="SELECT id, name, n * 10 AS revenue, _change_type FROM changes",
        **changes,
    )
    there = target.catalog().load_table(target.table) if target.catalog().table_exists(target.table) else None
    unread = nothing_new(source.on_worker(), facts(there) if there is not None else None, spec.consumer)
    if (
        unread.nothing_new
        and not spec.full_refresh
        and not is_guard_left(facts(source.loaded()), spec.consumer, unread.from_snapshot)
    ):
        return IncrementalReport(table=spec.table, outcome=Outcome.NOTHING_NEW, reason="by the worker")
    return dispatch_action(source.spark, spec, Progress())


def row_change(kind: type[DeleteRowsSpec | UpdateRowsSpec], **arguments: Any) -> Due:
    def due(spark: SparkSession, folder: Path) -> Action:
        table = MaintainedTable(spark)
        table.append(0, 5)
        spec = kind(catalog=CATALOG, table=table.name, run=RUN, where="id < 2", **arguments)
        return _driven(Flow(spark, table.name, folder / "unused"), spec)

    return due


def _as_ours(flow: Flow, call: Callable[[], JobReport]) -> JobReport:
    """Translate errors as the driver and the hook do."""
    with lake_errors(flow.table, dict):
        try:
            return call()
        except DBAPIError as error:
            raise JobFailedError(str(error)) from error


def change(kind: Any, version: int = 3, **arguments: Any) -> Due:
    """A change of metadata: by the driver for version 3, by the worker for version 2."""

    def due(spark: SparkSession, folder: Path) -> Action:
        flow = _new_flow(spark, folder, create=TableLayout(properties={"format-version": str(version)}))
        for number in range(2):
            flow.arrive(f"{number}.jsonl", row(number, "a"))
            flow.apply(f"run {number}")
        first = str(flow.loaded().history()[0].snapshot_id)
        spark.sql(f"ALTER TABLE {flow.table} CREATE TAG kept AS OF VERSION {first}")
        flow.arrive("3.jsonl", row(3, "a"))
        flow.apply("run 3", branch="audit")
        given = {name: first if value == "first" else value for name, value in arguments.items()}
        run = partial(_as_ours, flow, partial(carry_out, flow, kind, **given))
        return Action(run=run, flow=flow, tables=(flow.table,))

    return due


def compaction(
    prepare: Callable[[MaintainedTable], None], *, version: int = 2, partitioned: bool = False, **arguments: Any
) -> Due:
    def due(spark: SparkSession, folder: Path) -> Action:
        table = MaintainedTable(spark, version=version, partitioned=partitioned)
        prepare(table)
        # Not tried again at once: that is not the retry that is looked at.
        spec = table.compaction(max_attempts=1, **arguments)

        def run() -> JobReport:
            planned = plan_compaction(LoadedIcebergTable(table.outside()), spec)
            return planned if planned.outcome is Outcome.NOTHING_DUE else dispatch_action(spark, spec, Progress())

        return Action(run=run, flow=Flow(spark, table.name, folder / "unused"), tables=(table.name,))

    return due


def small_files(table: MaintainedTable) -> None:
    for place in range(6):
        table.append(place * 10, 5, ("north", "south")[place % 2])


def with_deletes(table: MaintainedTable) -> None:
    small_files(table)
    table.delete([0, 10, 20])


def with_equality_deletes(table: MaintainedTable) -> None:
    small_files(table)
    delete_by_equality(table.spark, table.handle.java, [0, 1000])


def with_deletes_left(table: MaintainedTable) -> None:
    """One partition whose files are due, and one whose only file has deletes that stay."""
    for place in range(6):
        table.append(place * 10, 5)
    table.append(100, 50, "south")
    table.delete([0, 10, 100])
    table.delete([101])


def many_delete_files(table: MaintainedTable) -> None:
    # A delete file of each deletion: those of one data file would be merged at once.
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.granularity'='partition')")
    table.append(0, 100)
    for id_ in range(5):
        table.delete([id_])


def deletes_of_before(table: MaintainedTable) -> None:
    """Position deletes of version 2 in a table of version 3."""
    many_delete_files(table)
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version'='3')")


def deletes_that_meet_no_row(table: MaintainedTable) -> None:
    table.append(0, 5)
    delete_by_equality(table.spark, table.handle.java, [1000])


def expiry(spark: SparkSession, folder: Path) -> Action:
    table = MaintainedTable(spark)
    table.append(0, 5)
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 50L, 'north', 500L")
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 60L, 'north', 500L")
    later = datetime.now(UTC) + timedelta(minutes=1)
    spec = SnapshotExpirySpec(
        catalog=CATALOG, table=table.name, run=RUN, expire_before=later, expire_stage_branches_before=later
    )

    def run() -> JobReport:
        planned = plan_expiry(LoadedIcebergTable(table.outside()), spec)
        return planned if planned.outcome is Outcome.NOTHING_DUE else dispatch_action(spark, spec, Progress())

    return Action(run=run, flow=Flow(spark, table.name, folder / "unused"), tables=(table.name,))


# The action that is due, and its commits when nothing goes wrong.
ACTIONS: dict[str, tuple[Due, int]] = {
    "create and load": (creating, 2),
    "alter three columns and load": (altering, 4),
    "positions": (by(UpsertStrategy.POSITIONS), 1),
    "copy-on-write": (by(UpsertStrategy.COPY_ON_WRITE), 1),
    "merge": (by(UpsertStrategy.MERGE), 3),
    "equality": (by(UpsertStrategy.EQUALITY), 1),
    "audited positions": (by(UpsertStrategy.POSITIONS, audits=POSITIVE), 2),
    "audited copy-on-write": (by(UpsertStrategy.COPY_ON_WRITE, audits=POSITIVE), 2),
    "audited merge": (by(UpsertStrategy.MERGE, audits=POSITIVE), 4),
    "audited equality": (by(UpsertStrategy.EQUALITY, audits=POSITIVE), 2),
    "upsert of a branch": (by(UpsertStrategy.MERGE, branch="audit"), 3),
    "ordering by key": (by_key, 3),
    "a cut key change": (cut, 3),
    "incremental, creates its target": (incremental(is_first=True), 4),
    "incremental": (incremental(is_first=False), 3),
    "incremental, full refresh": (incremental(is_first=False, full_refresh=True), 3),
    "delete rows": (row_change(DeleteRowsSpec), 1),
    "update rows": (row_change(UpdateRowsSpec, assignments={"amount": "0"}), 1),
    "roll back": (change(RollbackSpec, snapshot_id="first"), 1),
    "roll back, by the worker": (change(RollbackSpec, version=2, snapshot_id="first"), 1),
    "publish": (change(PublishBranchSpec, branch="audit", drop_branch=True), 1),
    "publish, by the worker": (change(PublishBranchSpec, version=2, branch="audit", drop_branch=True), 1),
    "create a tag": (change(CreateTagSpec, tag="quarter"), 1),
    "drop a tag": (change(DropTagSpec, tag="kept"), 1),
    "upgrade": (change(TableUpgradeSpec, version=2), 1),
    "compact and merge manifests": (compaction(small_files), 2),
    "compact in partial commits": (compaction(small_files, partitioned=True, min_input_files=2), 3),
    "compact in partial commits, vectors": (
        compaction(with_deletes, version=3, partitioned=True, min_input_files=2, level=CompactionLevel.MAJOR),
        3,
    ),
    "compact position deletes": (compaction(with_deletes, level=CompactionLevel.MAJOR), 2),
    "compact vectors": (compaction(with_deletes, version=3, level=CompactionLevel.MAJOR), 2),
    "compact equality deletes": (compaction(with_equality_deletes), 2),
    "compact one partition": (
        compaction(with_deletes, partitioned=True, where="region = 'north'", min_input_files=2),
        3,
    ),
    "compact, and deletes stay": (compaction(with_deletes_left, partitioned=True, level=CompactionLevel.MINOR), 4),
    "merge position deletes": (compaction(many_delete_files, level=CompactionLevel.MINOR), 2),
    "turn position deletes into vectors": (compaction(deletes_of_before, level=CompactionLevel.MINOR), 2),
    "remove equality deletes": (compaction(deletes_that_meet_no_row), 2),
    "expiry": (expiry, 2),
}
