"""Settings of a maintenance policy that Iceberg has in properties of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from airflow_lake_provider.contracts.author.maintenance_policy import OrphanMode
from airflow_lake_provider.contracts.policy_settings import NamedValue
from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.setting_kinds import LONGEST_SPAN
from airflow_lake_provider.iceberg.compaction_rules import TARGET_SIZE, followed_size
from airflow_lake_provider.iceberg.snapshot_retention import MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS
from airflow_lake_provider.iceberg.table_obstacles import GC_ENABLED, without_expiry


def owner_policy(properties: Mapping[str, str]) -> Iterator[NamedValue]:
    """Yield what the owner of a table has set. What Iceberg cannot read is refused by the action that reads it.

    :param properties: of the table.
    """
    if (age := _number(properties, MAX_SNAPSHOT_AGE)) is not None:
        longest = LONGEST_SPAN // timedelta(milliseconds=1)
        yield _owned("expiry.older_than", timedelta(milliseconds=min(age, longest)), MAX_SNAPSHOT_AGE)
    if number := _number(properties, MIN_SNAPSHOTS):
        yield _owned("expiry.retain_last", number, MIN_SNAPSHOTS)
    if size := followed_size(_number(properties, TARGET_SIZE)):
        yield _owned("compaction.target_file_size", size, TARGET_SIZE)
    if without_expiry(properties) is not None:
        # Its files may belong to other tables.
        yield _owned("expiry.enabled", False, GC_ENABLED, is_formats=False)
        yield _owned("orphans.mode", OrphanMode.OFF, GC_ENABLED, is_formats=False)


def _number(properties: Mapping[str, str], name: str) -> int | None:
    return whole_number(properties.get(name, "").strip())


def _owned(key: str, value: object, name: str, *, is_formats: bool = True) -> NamedValue:
    return NamedValue(key=key, value=value, origin=f"property {name!r} of the table", is_formats=is_formats)
