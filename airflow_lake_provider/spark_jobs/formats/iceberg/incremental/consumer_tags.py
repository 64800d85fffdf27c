"""A consumer's tags on its source table: one keeps a snapshot from expiry, and says who moved it when.

It is advisory. The truth of the cursor is the target's ``lake.position.<source table uuid>.<consumer>``, so losing the
guard can cost a range, never a wrong row. No ``max-ref-age`` ends the tags, the table's neither. It counts from the
snapshot's time, and a caught-up consumer of a quiet table would lose its tag.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError, RangeUnavailableError
from airflow_lake_provider.contracts.table_properties import reading_tag_of, tag_of
from airflow_lake_provider.iceberg.snapshot_retention import FOREVER
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import set_properties
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import is_conflict, is_unknown
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.progress import say

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
LONGEST_PAUSE = 2.0  # seconds


def pin(table: IcebergTable, consumer: str, snapshot_id: int) -> None:
    """Keep a snapshot from expiry while it is read.

    :raises CommitConflictError: other writers won every attempt, or expired the snapshot before; it is chosen again.
    """
    try:
        _commit(table, snapshot_id, {reading_tag_of(consumer): snapshot_id}, {})
    except RangeUnavailableError as error:
        raise CommitConflictError(f"{error}. Nothing was written") from error


def advance(table: IcebergTable, consumer: str, snapshot_id: int, *, owner: str, target: str, mode: str) -> None:
    """Move the consumer's tag to what its target has committed, drop the reading tag and write who it was.

    Tags and properties change in one commit. Repeating it does no harm.

    :param owner: who runs the consumer, for people: a DAG and task.
    :param target: table the consumer fills.
    :param mode: how it reads, ``net`` or ``upserts``.
    """
    facts = {
        "snapshot": str(snapshot_id),
        "advanced-at": datetime.now(UTC).isoformat(timespec="seconds"),
        "owner": owner,
        "target": target,
        "mode": mode,
    }
    properties = {f"{tag_of(consumer)}.{name}": value for name, value in facts.items()}
    _commit(table, snapshot_id, {tag_of(consumer): snapshot_id, reading_tag_of(consumer): None}, properties)


def _commit(
    table: IcebergTable, snapshot_id: int, tags: Mapping[str, int | None], properties: Mapping[str, str]
) -> None:
    retries = CommitRetries.of(str(table.name), table.properties(), MAX_ATTEMPTS)
    for attempt in retries.attempts(say):
        _refuse_expired(table.refresh(), snapshot_id)
        try:
            _try_commit(table, tags, properties)
        except JavaError as error:
            # What is set does not depend on what was there, so a lost answer is met by doing it again, too.
            if not is_conflict(error) and not is_unknown(error):
                raise
            logger.info("%s: attempt %d to move %s lost to another commit", table.name, attempt, sorted(tags))
            time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.05 * 2**attempt)))
        else:
            return
    raise CommitConflictError(
        f"{table.name}: other commits came in between {retries.tries} times while moving the tags {sorted(tags)}; "
        "no row is affected"
    )


def _try_commit(table: IcebergTable, tags: Mapping[str, int | None], properties: Mapping[str, str]) -> None:
    refs = table.java.refs()
    moves = {name: snapshot_id for name, snapshot_id in tags.items() if _needs_move(refs.get(name), snapshot_id)}
    if not moves and not properties:
        return
    transaction = table.java.newTransaction()
    if moves:
        _move_tags(transaction, refs, moves)
    set_properties(transaction, properties)
    transaction.commitTransaction()
    table.refresh()


def _needs_move(ref: Any, snapshot_id: int | None) -> bool:
    if ref is None or snapshot_id is None:
        return (ref is None) != (snapshot_id is None)
    return int(ref.snapshotId()) != snapshot_id or ref.maxRefAgeMs() is None


def _move_tags(transaction: Any, refs: Any, moves: Mapping[str, int | None]) -> None:
    update = transaction.manageSnapshots()
    for name, snapshot_id in moves.items():
        ref = refs.get(name)
        if snapshot_id is None:
            update.removeTag(name)
            continue
        if ref is None:
            update.createTag(name, snapshot_id)
        else:
            update.replaceTag(name, snapshot_id)
        # Without one of its own a tag has the table's. One that its owner gave it stays.
        if ref is None or ref.maxRefAgeMs() is None:
            update.setMaxRefAgeMs(name, FOREVER)
    update.commit()


def _refuse_expired(table: IcebergTable, snapshot_id: int) -> None:
    if table.java.snapshot(snapshot_id) is None:
        raise RangeUnavailableError(
            f"{table.name}: snapshot {snapshot_id} was expired before it could be tagged; keep snapshots for longer "
            "than a run takes"
        )
