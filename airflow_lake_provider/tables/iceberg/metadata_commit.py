"""Commit a change of metadata through PyIceberg, where it can write the table's metadata."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from uuid import UUID

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, RefMove
from airflow_lake_provider.tables.iceberg.pyiceberg_facts import facts_of

log = logging.getLogger(__name__)

# Commits of others that move none of the expected refs make the swap fail without being a conflict.
_SWAP_TRIES = 20
_HIVE_LOCK, _HIVE_READS = "engine.hive.lock-enabled", "engine.hive.enabled"
_MOST_AHEAD_MS = 30_000


def is_committed_without_spark(table: Table, change: MetadataChange) -> bool:
    """Tell whether PyIceberg can make a change.

    A REST catalog writes metadata itself. For others PyIceberg does, and it writes no upgrade that keeps every
    snapshot's sequence number. It locks a table of Hive, whose owner may let Java go without.
    """
    if isinstance(table.catalog, RestCatalog):
        return True
    if _is_of_hive_itself(table) or _is_ahead(table):
        return False
    return ICEBERG.gap("metadata-changes-on-worker", table.format_version) is None and change.format_version is None


def _is_of_hive_itself(table: Table) -> bool:
    """Tell whether Java swaps a table of a metastore without a lock, or for Hive's readers: PyIceberg does neither."""
    asked = {name: str(table.properties.get(name, "")).lower() for name in (_HIVE_LOCK, _HIVE_READS)}
    is_of_hive = table.catalog.properties.get("type") == "hive"
    return is_of_hive and (asked[_HIVE_LOCK] == "false" or asked[_HIVE_READS] == "true")


def _is_ahead(table: Table) -> bool:
    """Tell whether the last writer's clock is ahead: Java reads no metadata that is a minute older than its logs."""
    metadata = table.metadata
    logged = [log[-1].timestamp_ms for log in (metadata.snapshot_log, metadata.metadata_log) if log]
    return max(metadata.last_updated_ms, *logged, 0) > time.time() * 1000 + _MOST_AHEAD_MS


def commit_metadata(table: Table, change: MetadataChange) -> None:
    """Make a change while its refs are where they are expected, by a compare-and-swap of the catalog.

    A catalog that swaps whole metadata refuses what came behind any other commit; that is sent again.

    :param table: loaded now.
    :raises CommitConflictError: one of the refs moved, or other commits came first each time; nothing changed.
    :raises UnknownOutcomeError: the answer was lost.
    """
    name = ".".join(table.name())
    retries = CommitRetries.of(name, table.properties, _SWAP_TRIES)
    refusal: CommitFailedException | None = None
    for _ in retries.attempts(log.info):
        if refusal is not None:
            table = table.catalog.load_table(table.name())
            if _is_made(table, change):
                return
        try:
            table.catalog.commit_table(table, tuple(_requirements(change)), tuple(_updates(table, change)))
        except CommitFailedException as error:
            refusal = error
        except CommitStateUnknownException as error:
            raise UnknownOutcomeError(
                f"{name}: the catalog's answer to the commit was lost. A retry is safe: it looks at the table first."
            ) from error
        else:
            return
    if _is_made(table.catalog.load_table(table.name()), change):
        return
    raise CommitConflictError(
        f"{name}: commit refused {retries.tries} times: {refusal}. Nothing changed; a retry decides again."
    ) from refusal


def _is_made(table: Table, change: MetadataChange) -> bool:
    """Tell whether a change that was refused is made: a request that a client sends twice is refused the second time.

    :param table: loaded since.
    :raises CommitConflictError: it is not, and one of the refs moved.
    """
    name = ".".join(table.name())
    facts = facts_of(name, table.metadata)
    is_made = change.is_made(facts) and facts.uuid == change.table_uuid
    if not is_made:
        change.refuse_other_state(name, facts.uuid, facts.heads())
    return is_made


def _requirements(change: MetadataChange) -> Iterator[TableRequirement]:
    yield AssertTableUUID(uuid=UUID(change.table_uuid))
    for name, expected in change.expected_refs.items():
        at = None if expected is None else int(expected)
        yield AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at})


def _updates(table: Table, change: MetadataChange) -> Iterator[TableUpdate]:
    if change.format_version is not None:
        yield UpgradeFormatVersionUpdate.model_validate({"format-version": change.format_version})
    for move in change.moved_refs:
        yield _moved(table, move)
    for name in change.removed_refs:
        yield RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    if change.set_properties:
        yield SetPropertiesUpdate(updates=change.set_properties)
    if change.removed_properties:
        yield RemovePropertiesUpdate(removals=list(change.removed_properties))


def _moved(table: Table, move: RefMove) -> TableUpdate:
    there = table.metadata.refs.get(move.name)
    # A ref that is there keeps its retention.
    kept = there.model_dump(by_alias=True, exclude_none=True) if there is not None else {}
    wanted = {"ref-name": move.name, "type": move.kind, "snapshot-id": int(move.snapshot)}
    age = {"max-ref-age-ms": move.max_age_ms} if move.max_age_ms is not None else {}
    return SetSnapshotRefUpdate.model_validate({**kept, **wanted, **age})
