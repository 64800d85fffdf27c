"""One commit, one asset event: what an operator says on its outlets when it is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import Asset, AssetAlias

from airflow_lake_provider.assets.lake_table import (
    checked_authority,
    declared,
    is_of_connection,
    lake_table_asset,
    watches,
)
from airflow_lake_provider.contracts.errors import InvalidConnectionError
from airflow_lake_provider.contracts.reports.job import (
    DeleteRowsReport,
    IncrementalReport,
    JobReport,
    LoadReport,
    MetadataChangeReport,
    Outcome,
    RowExpiryReport,
    UpdateRowsReport,
)
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, TableHead, decide
from airflow_lake_provider.tables.watermark import Since

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.operators.task_run import TaskRun

# A publication commits to main what a branch had.
_OF_ROWS = (
    LoadReport,
    IncrementalReport,
    DeleteRowsReport,
    UpdateRowsReport,
    RowExpiryReport,
    MetadataChangeReport,
)


class TaskWithOutlets(Protocol):
    """Parts of an operator that decide on its events."""

    task_id: str
    outlets: list[Any]

    @property
    def has_own_tables(self) -> bool:
        """Return whether another instance or run of the task has other tables."""

    @property
    def lake(self) -> LakeCatalogHook:
        """The hook of the catalog that it wrote to."""

    def task_run(self, context: Context) -> TaskRun:
        """Return who runs: an earlier try, also one before a clearing, may have committed without an event."""


def announce(
    operator: TaskWithOutlets,
    reports: Mapping[tuple[str, str], Sequence[JobReport]],
    context: Context,
    *,
    untold: Collection[str] = (),
) -> None:
    """Let the asset of a table among the outlets have an event when rows were committed to it, and none otherwise.

    Airflow makes an event for each outlet of a task that succeeds. A watched asset gets its event from its watcher.
    Maintenance, a repeat or an empty batch are no new snapshot. Such an outlet is left out of this run. A task
    whose other instances or runs write elsewhere leaves out the outlets of other tables and branches, too. Other
    outlets stay. An asset alias among them gets the asset of each table without an outlet of its own.

    :param reports: of the task, by table and branch, oldest first; without any of a table whose job failed.
    :param untold: run keys of repeats that nobody has told of, beside those of earlier tries.
    """
    silent: list[Any] = []
    for place, of_place in reports.items():
        silent += _announce_table(operator, place, of_place, context, untold)
    silent += _outlets_of_other_tables(operator, list(reports))
    operator.outlets = [outlet for outlet in operator.outlets if outlet not in silent]


def _announce_table(
    operator: TaskWithOutlets,
    place: tuple[str, str],
    reports: Sequence[JobReport],
    context: Context,
    untold: Collection[str],
) -> list[Asset]:
    """Make the event of one table's branch, and return its outlets that are to have none."""
    table, branch = place
    ours = [outlet for outlet in operator.outlets if _is_of(outlet, operator, table, branch)]
    aliases = [outlet for outlet in operator.outlets if isinstance(outlet, AssetAlias)]
    if not ours and not aliases:
        return []
    payloads = ((report, _payload(operator, report, branch, context, untold)) for report in reversed(reports))
    report, payload = next(((of, made) for of, made in payloads if made is not None), (None, None))
    extra = {**(payload or {}), "run_key": report.run_key if report is not None else None}
    announced = [asset for asset in ours if payload is not None and not watches(asset)]
    for asset in announced:
        context["outlet_events"][asset].extra = extra
    if payload is not None and not ours:
        for alias in aliases:
            conn_id, authority = operator.lake.lake_conn_id, _authority(operator)
            asset = lake_table_asset(table, lake_conn_id=conn_id, authority=authority, branch=branch)
            context["outlet_events"][alias].add(asset, extra=extra)
    return [outlet for outlet in ours if outlet not in announced]


def _is_of(outlet: object, operator: TaskWithOutlets, table: str, branch: str) -> bool:
    """Return whether an outlet is the asset of a branch of a table, declared here or written as a URI."""
    if not isinstance(outlet, Asset):
        return False
    declaration = declared(outlet.name, outlet.uri)
    if declaration is not None and declaration.lake_conn_id == operator.lake.lake_conn_id:
        return (declaration.table, declaration.branch) == (str(TableName.parse(table)), branch)
    return outlet.uri in _uris(operator, TableName.parse(table), branch)


def _authority(operator: TaskWithOutlets) -> str:
    """Return the connection's id, by which DAGs name a table's asset, or its authority where an id fits into no URI."""
    try:
        return checked_authority(operator.lake.lake_conn_id)
    except InvalidConnectionError:
        return operator.lake.connection.asset_authority


def _uris(operator: TaskWithOutlets, table: TableName, branch: str) -> set[str]:
    authorities = {operator.lake.lake_conn_id, operator.lake.connection.asset_authority}
    return {table.asset_uri(authority, branch=branch) for authority in authorities}


def _outlets_of_other_tables(operator: TaskWithOutlets, places: Sequence[tuple[str, str]]) -> list[Asset]:
    """Return the outlets of other lake tables, where each instance of the task has tables of its own."""
    if not operator.has_own_tables:
        return []
    lake = operator.lake
    authorities = (lake.lake_conn_id, lake.connection.asset_authority)
    assets = [each for each in operator.outlets if isinstance(each, Asset)]
    lakes = [each for each in assets if is_of_connection(each, lake.lake_conn_id, authorities)]
    return [each for each in lakes if not any(_is_of(each, operator, *place) for place in places)]


def _payload(
    operator: TaskWithOutlets, report: JobReport, branch: str, context: Context, untold: Collection[str]
) -> dict[str, Any] | None:
    """Return what the watcher would say of the commit; None where it would say nothing, as of maintenance.

    A try that committed and then failed has made no event: Airflow makes them for tasks that succeed. A retry makes it,
    or a task that is cleared.
    """
    is_repeat = report.outcome is Outcome.ALREADY_APPLIED
    is_untold = is_repeat and (report.run_key in untold or operator.task_run(context).may_be_untold)
    if not isinstance(report, _OF_ROWS) or not report.committed or not (report.is_of_this_try or is_untold):
        return None
    if not operator.lake.table_format.worker:
        before = report.before.snapshot if report.before is not None and report.is_of_this_try else None
        ids = {"snapshot_id": report.committed[-1], "previous_snapshot_id": before}
        return {"table": report.table, "branch": branch, **ids}
    facts = operator.lake.loaded(report.table).facts
    committed = report.committed[-1]
    head = replace(TableHead.of(facts, branch), head=committed)
    new_snapshot = decide(head, Since(snapshot_id=_previous(report, head, report.committed[0])))
    return new_snapshot.to_payload(report.table, branch) if isinstance(new_snapshot, NewSnapshot) else None


def _previous(report: JobReport, head: TableHead, first: str) -> str | None:
    """Return where the table stood before; None where it had no rows yet.

    :param first: of the commits, which are several in a publication.
    """
    if report.before is not None and report.is_of_this_try:
        return report.before.snapshot
    # A new table, a lost report or an earlier try's commit; a new table's first snapshot has an empty one before it.
    record = head.snapshots.get(first)
    parent = head.snapshots.get(record.parent) if record is not None and record.parent is not None else None
    return parent.id if parent is not None and (parent.changes_rows or parent.parent is not None) else None
