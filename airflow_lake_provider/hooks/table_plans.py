"""Plans of the maintenance of a catalog's tables, from their metadata alone: :func:`table_plans`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.as_of import moment_in_utc
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.file_locations import folders_of_metadata
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.look_at_tables import is_unanswered, look_at_tables, table_locations
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.hooks.table_policy import PolicyReader
from airflow_lake_provider.maintenance.compaction import ACTION as COMPACTION
from airflow_lake_provider.maintenance.fleet_entries import TableLook, newest_snapshots
from airflow_lake_provider.maintenance.fleet_run import without_shared
from airflow_lake_provider.maintenance.health import broken_table, health_of
from airflow_lake_provider.maintenance.leases import without_leased
from airflow_lake_provider.maintenance.locations import (
    Overlap,
    TableLocations,
    overlapping_locations,
    overlaps_of_all,
)
from airflow_lake_provider.maintenance.packing import ranked
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.tuning import explained
from airflow_lake_provider.planning.early_refusals import refuse_compaction, refuse_row_expiry, refuse_statistics

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
    from airflow_lake_provider.maintenance.plan import TablePlan
    from airflow_lake_provider.tables.base import ListedTable, LoadedTable

_EXPIRY = "snapshot-expiry"
# By action, the argument of its task that names columns, and what refuses those that do not fit.
_REFUSALS: Mapping[str, tuple[str, Callable[[Any, LoadedTable], None]]] = {
    "expire-rows": ("column", refuse_row_expiry),
    "compute-statistics": ("columns", refuse_statistics),
    COMPACTION: ("sort_by", refuse_compaction),
}


@dataclass(frozen=True, kw_only=True)
class PlannedTables:
    """Plans of tables, and what only a look at all of them shows.

    :param plans: the most urgent first.
    :param overlaps: of their locations; of an expiry that is due also with entries that were not asked for.
    :param looks: by table, from what its plan was made.
    """

    plans: tuple[TablePlan, ...]
    overlaps: tuple[Overlap, ...] = ()
    looks: Mapping[str, TableLook] = field(default_factory=dict)


def table_plans(
    tables: str | Sequence[str] = "*",
    *,
    lake_conn_id: str = LakeCatalogHook.default_conn_name,
    policy_file: str | None = None,
    policy: Mapping[str, Any] | None = None,
    history: str | None = None,
    now: datetime | None = None,
) -> list[TablePlan]:
    """Return what maintenance of tables would do, and why, the most urgent first, without Spark.

    A table that cannot be read, or whose policy cannot, has a plan with its error, and no action. What would wait is
    left out: actions that keep failing, and tables that a run has leased. So is what removes files by their
    place, where the locations of two of the tables overlap. A table that the catalog has twice is not expired.

    :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog.
    :param policy_file: as of :func:`.table_policies`.
    :param policy: settings that the DAG names itself, as of :func:`.table_policies`.
    :param history: table of the maintenance history, or ``off``; None takes ``[lake] maintenance_history``. By it
        actions that keep failing rest.
    :param now: against which ages and hours count, with a zone; the present moment by default.
    :raises InvalidSpecError: a pattern is none, ``now`` has no zone, or file or DAG has what no setting takes.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: a table that is named without ``*`` and ``?`` does not exist.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """
    moment = datetime.now(UTC) if now is None else moment_in_utc(now, "now")
    hook = LakeCatalogHook(lake_conn_id)
    reader = PolicyReader(hook, policy_file=policy_file, policy=policy)
    planned = plan_tables(tables, reader, moment, history=MaintenanceHistory(hook, history))
    return without_leased(without_shared(planned.plans, planned.overlaps), MaintenanceLeases(hook).current())


def plan_tables(
    tables: str | Sequence[str] | TablePatterns,
    policies: PolicyReader,
    now: datetime,
    *,
    history: MaintenanceHistory,
    missing_are_broken: bool = False,
) -> PlannedTables:
    """Return the plans of tables, and where the locations of two of them overlap.

    A table that is dropped during the look has no plan. Where snapshots would go, all tables of the catalog are looked
    at: another entry of the same table may read their files.

    :param tables: as of :func:`table_plans`.
    :param policies: of the catalog that is looked at.
    :param now: against which ages and hours count.
    :param history: of the catalog; by it actions that keep failing rest.
    :param missing_are_broken: a table that is named and does not exist has a plan with its error.
    :raises LakeProviderError: as :func:`table_plans`.
    """
    hook = policies.hook
    remembered = history.remembered()

    def planned(listed: ListedTable, table: LoadedTable) -> tuple[TablePlan, TableLook]:
        merged = policies.policy_of(listed, table, now)
        where = TableLocations(name=str(listed), folders=table.locations(), uuid=table.facts.uuid)
        if merged.policy is None:
            plan, look = broken(str(listed), merged.error or "its policy cannot be read")
            return plan, replace(look, locations=where)
        health = health_of(table, now, merged.limits, remembered.orphans.get(str(listed)))
        past = None if remembered.outcomes is None else remembered.outcomes.get(str(listed), ())
        look = TableLook(health=health, policy=merged, newest=newest_snapshots(table.facts), locations=where)

        def made(asked: MaintenancePolicy) -> TablePlan:
            return _fitting(explained(plan_of(health, asked, now, past), merged), table)

        return _with_manifests_of_no_compaction(made, merged.policy), look

    def broken(name: str, error: str) -> tuple[TablePlan, TableLook]:
        health = broken_table(name, now, error)
        return plan_of(health, policies.policy_of_unread(name), now), TableLook(health=health)

    patterns = tables if isinstance(tables, TablePatterns) else TablePatterns.parse(tables)
    forget = policies.forget_unanswered
    looked = look_at_tables(
        patterns, hook, planned, broken, _error_of, forget=forget, missing_are_broken=missing_are_broken
    )
    dropped = _dropped({plan.table for plan, _ in looked if plan.is_missing} - {*patterns.included}, hook)
    return _compared_with_others(_planned_tables(looked, dropped), hook)


def _error_of(looked: tuple[TablePlan, TableLook]) -> str | None:
    return looked[0].error


def _planned_tables(looked: Sequence[tuple[TablePlan, TableLook]], dropped: Collection[str]) -> PlannedTables:
    return PlannedTables(
        plans=tuple(ranked(plan for plan, _ in looked if plan.table not in dropped)),
        overlaps=tuple(overlaps_of_all(look.locations for _, look in looked if look.locations)),
        looks={plan.table: look for plan, look in looked},
    )


def _dropped(missing: set[str], hook: LakeCatalogHook) -> set[str]:
    """Return those of some missing tables that others have dropped; one that the catalog still lists is broken."""
    return missing - {str(table) for table in hook.list_tables()} if missing else missing


def _compared_with_others(planned: PlannedTables, hook: LakeCatalogHook) -> PlannedTables:
    """Add the overlaps of tables whose snapshots would go with other entries of the same tables in the catalog.

    Only an expiry that is due is worth the look at all tables. Where the catalog lists none, no snapshot goes.
    """
    due = {plan.table for plan in planned.plans if any(each.action == _EXPIRY for each in plan.actions)}
    own = [look.locations for name, look in planned.looks.items() if name in due and look.locations]
    if not own:
        return planned
    try:
        listed = [each for each in hook.list_tables() if not each.foreign]
        # No plan loads what no operator can name.
        others = [each for each in listed if str(each) not in planned.looks or not each.is_nameable]
        located = table_locations(hook, others, of_earlier_versions=False)
    except LakeProviderError as error:
        why = f"Nobody knows whether another entry of the catalog is this table, too: {str(error).rstrip('.')}."
        instead = "Let the user of the connection list all namespaces."
        return replace(planned, plans=tuple(plan.without({_EXPIRY}, why, instead) for plan in planned.plans))
    overlaps = overlaps_of_all([*own, *located])
    twins = (each for each in overlaps if each.is_same_table and due & {each.table, each.other})
    plans = _without_expiry_of_possible_twins(planned.plans, own, [*located, *_unread(listed, planned.looks)])
    # Two that were both looked at are there already.
    return replace(planned, plans=plans, overlaps=tuple(dict.fromkeys((*planned.overlaps, *twins))))


def _unread(listed: Iterable[ListedTable], looks: Mapping[str, TableLook]) -> Iterator[TableLocations]:
    """Yield the tables that a look could not read: to ask for them again may take a minute each."""
    for each in listed:
        look = looks.get(str(each))
        if look is not None and look.locations is None:
            folders = folders_of_metadata(each.metadata_location)
            yield TableLocations(name=str(each), folders=folders, error=look.health.error)


def _without_expiry_of_possible_twins(
    plans: Iterable[TablePlan], own: Iterable[TableLocations], others: Iterable[TableLocations]
) -> tuple[TablePlan, ...]:
    """Return plans without the expiry of tables where another entry lies for which the catalog did not answer."""
    away = [each for each in others if is_unanswered(each.error)]
    possible = {table.name: overlap.other for table in own for overlap in overlapping_locations(table, away)}
    instead = "It is planned again by the next run, once the catalog has answered."
    return tuple(
        plan.without({_EXPIRY}, f"The catalog did not answer whether {other} is this table, too.", instead)
        if (other := possible.get(plan.table))
        else plan
        for plan in plans
    )


def _with_manifests_of_no_compaction(
    made: Callable[[MaintenancePolicy], TablePlan], policy: MaintenancePolicy
) -> TablePlan:
    """Return the plan by a policy; manifests wait for no compaction that does not fit the table.

    :param made: makes a plan by a policy, without what does not fit.
    """
    plan = made(policy)
    refused = [each for each in plan.not_planned if each.action == COMPACTION and each.is_unsupported]
    if not refused:
        return plan
    plan = made(replace(policy, compaction=replace(policy.compaction, enabled=False)))
    return replace(plan, not_planned=(*(each for each in plan.not_planned if each.action != COMPACTION), *refused))


def _fitting(plan: TablePlan, table: LoadedTable) -> TablePlan:
    """Return a plan without actions on columns that the table lacks, which each run would refuse."""
    for each in plan.actions:
        argument, refuse = _REFUSALS.get(each.action, ("", None))
        # Of a thousand tables, nobody works out the columns of those whose policy names none.
        if refuse is None or argument not in each.task:
            continue
        try:
            refuse(written_task(each.task, each.action), table)
        except (InvalidSpecError, UnsupportedError) as error:
            why = str(error).removeprefix(f"{plan.table}: ")
            instead = "Correct the policy of the table."
            plan = plan.without({each.action}, f"The table does not fit it: {why}.", instead, is_unsupported=True)
    return plan
