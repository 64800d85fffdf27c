"""The names this package writes on tables. They are fixed: other versions and other teams read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ACTION = "lake.action"
RUN_KEY = "lake.run-key"
SOURCE_POSITION = "lake.source-position"
BASE_SNAPSHOT = "lake.base-snapshot"
FILTER = "lake.filter"
ERASED_DIGEST = "lake.erased-digest"
ROWS_MATCHED = "lake.rows-matched"
EXPIRED_BEFORE = "lake.expired-before"
HISTORY_AT = "lake.history-at"
# Entry of Iceberg's: the snapshot that was cherry-picked (``SnapshotSummary`` of 1.12).
PICKED_FROM = "source-snapshot-id"

RECENT_RUN_KEYS = "lake.recent-run-keys"
RUN_KEYS_DROPPED_BEFORE = "lake.run-keys-dropped-before"
POSITION_PREFIX = "lake.position."
KEY_CHANGES_PREFIX = "lake.key-changes."
EPOCH_PREFIX = "lake.source-epoch."
EVENTS_PREFIX = "lake.events."
TRANSFORM_PREFIX = "lake.transform."
UNFINISHED_EXPIRY = "lake.expiry-unfinished"
CONSUMER_PREFIX = "lake.consumer."
MAINTENANCE_PREFIX = "lake.maintenance."
STAGE_BRANCH_PREFIX = "lake_stage_"
AUDIT_BRANCH_PREFIX = "lake_audit_"

# A Hive metastore before 2.3 keeps a parameter in 4,000 characters; the rest of its row needs some of them.
MAX_VALUE_CHARACTERS = 3_500

_APPLIED = (
    RECENT_RUN_KEYS,
    RUN_KEYS_DROPPED_BEFORE,
    POSITION_PREFIX,
    KEY_CHANGES_PREFIX,
    EPOCH_PREFIX,
    EVENTS_PREFIX,
    TRANSFORM_PREFIX,
    HISTORY_AT,
)


def tag_of(consumer: str) -> str:
    """Return the tag on the snapshot a consumer has consumed."""
    return f"{CONSUMER_PREFIX}{consumer}"


def reading_tag_of(consumer: str) -> str:
    """Return the tag on the snapshot a consumer is reading; consumers' names have no dots, so it is free."""
    return f"{tag_of(consumer)}.reading"


def applied_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with main's applied state; they belong to its head."""
    return {name: value for name, value in properties.items() if name.startswith(_APPLIED)}


def newest_entry(summaries: Iterable[Mapping[str, str]], name: str) -> dict[str, str]:
    """Return an entry of the newest summary that has it; empty where none has.

    :param summaries: of snapshots, newest first.
    """
    return next(({name: summary[name]} for summary in summaries if name in summary), {})
