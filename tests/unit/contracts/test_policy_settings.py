"""Settings of a maintenance policy: what each takes, in a DAG and as a property, and what is refused and how."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    MaintenancePolicy,
    OrphanMode,
    OrphanPolicy,
    RowExpiryPolicy,
)
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.policy_settings import (
    BY_PROPERTY,
    GROUPS,
    SETTINGS,
    read_named,
    read_properties,
    read_value,
)
from airflow_lake_provider.contracts.setting_kinds import Hours

# Key: text of a property, what YAML and DAGs have, and what both are read as.
VALUES: dict[str, tuple[str, Any, Any]] = {
    "paused": ("true", True, True),
    "compaction.level": ("minor", "minor", CompactionLevel.MINOR),
    "compaction.deleted_share": ("0.25", 0.25, 0.25),
    "compaction.min_input_files": ("7", 7, 7),
    "compaction.delete_files_per_data_file": ("0", 0, 0.0),
    "compaction.target_file_size": ("128MB", "128MB", 128 * 1024**2),
    "compaction.sort_by": ("day, id DESC", ["day", "id DESC"], ("day", "id DESC")),
    "compaction.hot_within": ("PT2H", "PT2H", timedelta(hours=2)),
    "compaction.after_commits": ("20", 20, 20),
    "orphans.quarantine_for": ("P7D", "P7D", timedelta(days=7)),
    "expiry.retain_last": ("3", 3, 3),
    "orphans.mode": ("off", "off", OrphanMode.OFF),
    "orphans.older_than": ("P4D", "P4D", timedelta(days=4)),
    "tags.daily": ("7", 7, 7),
    "fresh_within": ("", None, None),
    "major_hours": ("22 - 06", "22-6", "22-6"),
    "priority": ("-5", -5, -5),
    "pool": ("lake", "lake", "lake"),
}


@pytest.mark.parametrize("key", VALUES)
def test_a_setting_is_read_alike_from_a_property_and_from_a_dag(key: str) -> None:
    text, given, expected = VALUES[key]
    (from_property,) = read_properties({SETTINGS[key].property_name: text}, "table shop.orders")
    assert (from_property.key, from_property.value) == (key, expected)
    group, _, name = key.rpartition(".")
    (from_dag,) = read_named({group: {name: given}} if group else {name: given}, "policy")
    assert (from_dag.key, from_dag.value) == (key, expected)


WRONG_VALUES = [
    ("paused", "maybe", "must be true or false"),
    ("paused", 1, "must be true or false"),
    ("compaction.level", "all", "must be one of 'auto', 'minor', 'major', 'full', got 'all'"),
    ("compaction.level", None, "must be one of"),
    ("compaction.small_file_share", 0, r"must be a share in \(0, 1\], got 0"),
    ("compaction.small_file_share", 1.1, r"must be a share in \(0, 1\]"),
    ("compaction.small_file_share", True, "must be a share"),
    ("compaction.small_file_share", float("nan"), "must be a share"),
    ("compaction.small_file_share", "20%", "must be a share"),
    ("compaction.min_input_files", 0, "must be a whole number from 1 to 1000000000, got 0"),
    ("compaction.min_input_files", 2.5, "must be a whole number"),
    ("compaction.min_input_files", "٣", "must be a whole number"),
    ("compaction.min_input_files", 10**20, "must be a whole number"),
    ("compaction.delete_files_per_data_file", -1, "must be a number from 0"),
    ("compaction.delete_files_per_data_file", float("inf"), "must be a number from 0"),
    ("compaction.target_file_size", "1 parsec", "must be a size such as '128MB'"),
    ("compaction.target_file_size", 0, "must be a size"),
    ("compaction.target_file_size", "9" * 5_000, "must be a size"),
    ("compaction.sort_by", "day", "must be a list of column names"),
    ("compaction.sort_by", ["{{ var.value.secret }}"], "no template"),
    ("compaction.hot_within", "1 hour", "ISO-8601 duration"),
    ("compaction.every", "PT0S", "ISO-8601 duration"),
    ("compaction.hot_within", "P99999999D", "at most P36500D"),
    ("expiry.retain_last", 0, "must be a whole number from 1"),
    ("orphans.mode", "remove", "must be one of 'off', 'dry-run', 'quarantine', 'delete'"),
    ("orphans.mode", False, "must be one of"),
    ("orphans.older_than", "PT23H", "must be at least P1D and at most P36500D, got 'PT23H'"),
    ("orphans.every", "P91D", "at most P90D, got 'P91D'"),
    ("orphans.every", "P1Y", "at most P90D"),
    ("tuning.longest_orphan_wait", "P120D", "at most P90D"),
    ("orphans.max_share", 2, "must be a share"),
    ("row_expiry.column", "a\nb", "in one line"),
    ("row_expiry.column", "x" * 251, "1 to 250 characters"),
    ("tags.daily", -1, "must be a whole number from 0 to 1000"),
    ("major_hours", "22", "hours in UTC such as '22-6'"),
    ("major_hours", "6-6", "hours in UTC"),
    ("major_hours", "22-25", "hours in UTC"),
    ("major_hours", "night", "hours in UTC"),
    ("major_hours", 22, "hours in UTC"),
    ("pool", ["a"], "must be a text"),
    ("pool", "{% raw %}", "no template"),
    ("priority", 10**7, "must be a whole number from -1000000"),
    ("owner", "\x1b[31m", "in one line"),
]


@pytest.mark.parametrize(("key", "value", "why"), WRONG_VALUES)
def test_a_value_of_another_kind_is_refused_by_name(key: str, value: Any, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"^the file: {key} .*{why}"):
        read_value(key, value, "the file")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"compacton": {}}, r"a policy has no 'compacton'; did you mean 'compaction'\?; it has paused, compaction, "),
        (
            {"compaction": {"delete_share": 0.1}},
            r"compaction of a policy has no 'delete_share'; did you mean 'deleted_",
        ),
        ({"orphans": "delete"}, "orphans must be a mapping of settings, got 'delete'"),
        ({"orphans": OrphanPolicy()}, "orphans must be a mapping .* name those that you mean"),
        ({5: 1}, "a policy has no '5'"),
        ({"x" * 10_000: 1}, "and 9940 characters more"),
        (MaintenancePolicy(), "policy must be a mapping of settings, .* A MaintenancePolicy has all settings"),
        ("paused", "policy must be a mapping of settings, got 'paused'"),
    ],
)
def test_what_is_no_setting_is_refused_with_the_nearest(given: Any, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why):
        read_named(given, "policy of the DAG")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "orphan.mode",
            "off",
            r"'lake.maintenance.orphan.mode' is no setting; did you mean 'lake.maintenance.orphans.mo",
        ),
        ("orphans.mod", "off", "did you mean 'lake.maintenance.orphans.mode'"),
        ("orphans.older_than", "P9D", "did you mean 'lake.maintenance.orphans.older-than'"),
        ("", "x", "is no setting"),
        ("x" * 100_000, "x", "is no setting"),
        ("paused", "yes", "'lake.maintenance.paused' is 'yes', expected 'true' or 'false'; correct or remove it"),
        ("fresh-within", "x" * 100_000, "and 99940 characters more, expected an ISO-8601 duration"),
        ("fresh-within", "\x1b[2J\n", r"is '\\x1b\[2J\\n', expected"),
        ("compaction.sort-by", "a," * 400 + "{{ 7 * 7 }}", "expected a list of column names"),
    ],
)
def test_a_property_that_cannot_be_read_is_refused_without_printing_it_raw(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why) as refused:
        read_properties({f"lake.maintenance.{name}": text}, "table shop.orders")
    assert str(refused.value).startswith("table shop.orders: the property ")
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_properties_of_others_are_none_of_ours() -> None:
    assert read_properties({"lake.recent-run-keys": "x", "owner": "me", "lake.maintenanceX": "1"}, "table t") == []


def test_every_setting_says_what_it_is_and_has_a_property_and_a_default_that_it_takes() -> None:
    assert len(SETTINGS) == len(BY_PROPERTY) == 52
    for key, each in SETTINGS.items():
        assert each.sentence.endswith("."), key
        plain = each.default.value if hasattr(each.default, "value") else each.default
        assert each.kind.read(plain, key) == each.default


def test_the_objects_of_authors_hold_the_defaults_and_read_any_mapping() -> None:
    class Given(dict[str, object]):
        """A mapping that is no plain dict."""

    policy = MaintenancePolicy(orphans=Given(mode="delete"), major_hours="22-6")  # type: ignore[arg-type]  # as authors do
    assert (policy.orphans.mode, policy.orphans.max_share) == (OrphanMode.DELETE, 0.2)
    assert json.dumps(policy.to_mapping()) == '{"orphans": {"mode": "delete"}, "major_hours": "22-6"}'
    assert {each.name for each in fields(MaintenancePolicy)} >= GROUPS.keys()


@pytest.mark.parametrize(
    ("given", "inside", "outside"),
    [("22-6", {22, 23, 0, 5}, {6, 12, 21}), ("0-24", set(range(24)), set()), ("9-17", {9, 16}, {8, 17})],
)
def test_hours_may_go_over_midnight(given: str, inside: set[int], outside: set[int]) -> None:
    hours = read_value("major_hours", given, "x")
    assert isinstance(hours, Hours)
    for hour in inside | outside:
        assert hours.include(datetime(2026, 11, 26, hour, 59, tzinfo=UTC)) is (hour in inside)


def test_a_row_expiry_that_is_off_names_no_column_and_one_without_an_age_is_refused() -> None:
    off = RowExpiryPolicy(enabled=False, column="at", keep=timedelta(days=1))
    assert (off.column, off.keep) == (None, None)
    assert RowExpiryPolicy(keep=timedelta(days=1)).column is None
    with pytest.raises(InvalidSpecError, match="row_expiry needs keep beside column, got column='at'"):
        RowExpiryPolicy(column="at")
