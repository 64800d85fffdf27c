"""Tell from a table's metadata what each operator can do with it, and why not.

The same rules refuse it when a task runs. What depends on rows, on a batch or on the cluster is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_lake_provider.contracts.applied.applied_history import broken_position
from airflow_lake_provider.contracts.capabilities import Verdict
from airflow_lake_provider.contracts.specs.maintenance import FLINK_JOB_AGE
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts
from airflow_lake_provider.iceberg.owner_settings import unusable_settings
from airflow_lake_provider.iceberg.streaming_writers import (
    kept_for_flink,
    named,
    newest_of_jobs,
    recent,
    without_expiry_of_version_3,
    without_upgrade_to_version_3,
)
from airflow_lake_provider.iceberg.table_obstacles import (
    choosing_code,
    refuses_delete_files,
    strategy_obstacles,
    with_change_columns,
    without_data_files,
    without_expiry,
    without_row_changes,
    without_row_lineage,
    without_rows,
)
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy

NO_KEYS = "no keys are known: the table has no identifier fields; name key columns with --keys"


def check_table(table: IcebergFacts, keys: Sequence[str] = ()) -> list[Verdict]:
    """Return what each operator can do with a table.

    :param table: loaded now.
    :param keys: key columns of upserts and changes; without any, the identifier fields.
    """
    key_columns = tuple(keys) or tuple(table.shape.identifiers)
    verdicts = [
        *_upserts(table, key_columns),
        *_row_changes(table),
        _source_of_changes(table, key_columns),
        *_maintenance(table),
        *_metadata_changes(table),
    ]
    obstacles = [why for why in (choosing_code(table.properties), *unusable_settings(table.properties).values()) if why]
    return [replace(each, possible=False, reason="; ".join(obstacles)) for each in verdicts] if obstacles else verdicts


def _verdict(operator: str, use: str, obstacle: str | None, otherwise: str = "") -> Verdict:
    return Verdict(operator=operator, use=use, possible=obstacle is None, reason=obstacle or otherwise)


def _upserts(table: IcebergFacts, keys: Sequence[str]) -> Iterator[Verdict]:
    operator, table_obstacle = (
        "LakeUpsertOperator",
        without_data_files(table.shape) or broken_position(table) or _unfit_keys(table, keys),
    )
    yield _automatic(table, keys, table_obstacle)
    for strategy in UpsertStrategy:
        if strategy is UpsertStrategy.AUTO:
            continue
        obstacle = table_obstacle or next(strategy_obstacles(table.shape, strategy, keys), None)
        yield _verdict(operator, f"strategy='{strategy.value}'", obstacle, f"by {', '.join(keys)}")


def _automatic(table: IcebergFacts, keys: Sequence[str], table_obstacle: str | None) -> Verdict:
    """Return which strategy ``auto`` takes, as ``choose_strategy`` does."""
    by_files = next(strategy_obstacles(table.shape, UpsertStrategy.COPY_ON_WRITE, keys), None)
    by_merge = by_files and next(strategy_obstacles(table.shape, UpsertStrategy.MERGE, keys), None)
    taken = "takes positions, copy-on-write for a third of the rows, and merge for more than two million keys"
    if by_files is not None:
        taken = f"takes merge: {by_files}"
    elif (reason := refuses_delete_files(table.format_version, table.properties)) is not None:
        taken = f"takes copy-on-write: {reason}"
    none_left = f"{by_files}; {by_merge}" if by_merge else None
    return _verdict("LakeUpsertOperator", "strategy='auto'", table_obstacle or none_left, taken)


def _unfit_keys(table: IcebergFacts, keys: Sequence[str]) -> str | None:
    if not keys:
        return NO_KEYS
    columns = table.shape.names
    known = {name.lower() for name in columns}
    if unknown := [name for name in keys if name.lower() not in known]:
        return f"keys {unknown} are no top-level columns; the table has {columns}"
    return None


def _row_changes(table: IcebergFacts) -> Iterator[Verdict]:
    unfit = without_row_changes(table.shape)
    obstacle = without_rows(table.shape) or unfit
    yield _verdict("LakeDeleteRowsOperator", "where, keys_from", obstacle)
    identifiers = table.shape.identifiers
    kept = f"the identifier columns {identifiers} cannot be assigned to" if identifiers else ""
    yield _verdict("LakeUpdateRowsOperator", "where, assignments", without_data_files(table.shape) or unfit, kept)


def _source_of_changes(table: IcebergFacts, keys: Sequence[str]) -> Verdict:
    why = (
        without_rows(table.shape) or without_row_lineage(table.format_version) or with_change_columns(table.shape.names)
    )
    head = table.newest()
    # Of a table that was upgraded, and written by nobody since.
    is_upgraded = head is not None and head.first_row_id is None
    first = "rows get row ids with the next commit; runs before it and the first after it read everything"
    return _verdict(
        "LakeIncrementalOperator",
        "source",
        why or _unfit_keys(table, keys),
        first if is_upgraded else f"by {', '.join(keys)}",
    )


def _maintenance(table: IcebergFacts) -> Iterator[Verdict]:
    operator = "LakeCompactionOperator"
    equality = table.total("total-equality-deletes")
    positions = table.total("total-position-deletes")
    debt = [f"{equality} keys in equality deletes, as Flink writes them"] if equality else []
    debt += [f"{positions} rows deleted by position"] if positions else []
    yield _verdict(
        operator,
        "strategy='binpack'",
        without_data_files(table.shape),
        f"applies {' and '.join(debt)}" if debt else "",
    )
    order = table.shape.sort_columns
    sorts = f"by the table's sort order ({', '.join(order)}), or by sort_by" if order else None
    yield _verdict(
        operator,
        "strategy='sort'",
        without_data_files(table.shape),
        sorts or "by sort_by; the table has no sort order of its own",
    )
    yield _expiry(table)


def _expiry(table: IcebergFacts) -> Verdict:
    histories, since = table.branch_histories(), recent(FLINK_JOB_AGE)
    # What an expiry of all but the heads would do.
    old = {fact.id for history in histories for fact in history[1:]} - kept_for_flink(histories, since).keys()
    obstacle = without_expiry(table.properties) or without_expiry_of_version_3(
        table.format_version, histories, old, since
    )
    jobs = list(newest_of_jobs(histories, since).values())
    kept = f"keeps the snapshots from the last commit of {named(jobs)} on" if jobs else ""
    return _verdict("LakeSnapshotExpiryOperator", "older_than", obstacle, kept)


def _metadata_changes(table: IcebergFacts) -> Iterator[Verdict]:
    reached = f"the table has format version {table.format_version} already" if table.format_version >= 3 else None
    yield _verdict(
        "LakeTableUpgradeOperator",
        "format_version=3",
        reached or without_upgrade_to_version_3(table.branch_histories(), recent(FLINK_JOB_AGE)),
        "no way back; every reader and writer has to know version 3. Flink's upserts into it fail after any expiry",
    )
    lineage = list(table.ancestors())
    yield _verdict(
        "LakeRollbackOperator",
        "snapshot_id, timestamp, tag",
        None if lineage[1:] else "main has no earlier snapshot",
        f"{len(lineage) - 1} earlier snapshots of main are not expired",
    )
    branches = sorted(name for name, ref in table.references.items() if ref.is_branch)
    for name in branches:
        if name != MAIN and not name.startswith("lake_"):
            yield _publication(table, name, lineage)
    yield _verdict("LakeCreateTagOperator", "tag", None if lineage else "main has no snapshot to tag")


def _publication(table: IcebergFacts, branch: str, main: Sequence[Snapshot]) -> Verdict:
    ahead = list(table.ancestors(branch))
    obstacle = None
    ids, of_main = {snapshot.id for snapshot in ahead}, {snapshot.id for snapshot in main}
    if main and main[0].id not in ids and ahead[0].id not in of_main:
        obstacle = f"main is at snapshot {main[0].id}, which the branch lacks"
    gained = len(ids - of_main)
    return _verdict("LakePublishBranchOperator", f"branch='{branch}'", obstacle, f"main gains {gained} snapshots")
