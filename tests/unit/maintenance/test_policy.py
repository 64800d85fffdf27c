"""Layers of a policy, merged key by key: what holds, where it comes from, and what strangers may not say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy, MaintenancePolicy, OrphanMode
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.policy_settings import SETTINGS, NamedValue, read_named
from airflow_lake_provider.contracts.setting_kinds import ONLY_FALSE, ONLY_TRUE, Hours
from airflow_lake_provider.iceberg.owner_settings import owner_policy
from airflow_lake_provider.maintenance.policy import Layer, LayerValues, TablePolicy, dag_layer, merge, property_layer

TABLE = "shop.orders"


def file_layer(named: Mapping[str, Any]) -> LayerValues:
    return LayerValues(Layer.FILE, read_named(named, "policy.yaml:3"))


def table_layer(**properties: str) -> LayerValues:
    named = {f"lake.maintenance.{name}": value for name, value in properties.items()}
    return property_layer(Layer.TABLE, named, f"table {TABLE}")


def namespace_layer(**properties: str) -> LayerValues:
    named = {f"lake.maintenance.{name}": value for name, value in properties.items()}
    return property_layer(Layer.NAMESPACE, named, "namespace shop")


def merged(*layers: LayerValues) -> MaintenancePolicy:
    policy = merge(TABLE, layers).policy
    assert policy is not None
    return policy


def test_without_layers_the_defaults_hold() -> None:
    policy = merge(TABLE, [])
    assert policy.policy == MaintenancePolicy()
    assert {each.layer for each in policy.values} == {Layer.DEFAULTS}
    assert [each.key for each in policy.values] == list(SETTINGS)


def test_a_later_layer_goes_before_an_earlier_one_key_by_key() -> None:
    layers = [
        dag_layer({"compaction": {"min_input_files": 9}}),
        table_layer(**{"compaction.deleted-share": "0.4", "compaction.min-input-files": "8"}),
        namespace_layer(**{"compaction.deleted-share": "0.3", "compaction.sorted-share": "0.3"}),
        file_layer({"compaction": {"deleted_share": 0.2, "small_file_share": 0.2}, "paused": False}),
    ]
    policy = merge(TABLE, layers)
    named = {key: policy.value_of(f"compaction.{key}") for key in ("min_input_files", "deleted_share", "sorted_share")}
    assert [(each.value, each.layer) for each in named.values()] == [
        (9, Layer.DAG),
        (0.4, Layer.TABLE),
        (0.3, Layer.NAMESPACE),
    ]
    assert named["deleted_share"].origin == "property 'lake.maintenance.compaction.deleted-share' of table shop.orders"
    assert policy.value_of("compaction.small_file_share").origin == "policy.yaml:3"
    assert policy.value_of("paused").layer is Layer.FILE
    assert json.loads(json.dumps(to_plain(policy)))["policy"]["compaction"]["min_input_files"] == 9


def test_of_one_layer_the_last_holds() -> None:
    first, last = read_named({"priority": 1}, "a:1"), read_named({"priority": 2}, "a:9")
    assert merge(TABLE, [LayerValues(Layer.FILE, [*first, *last])]).value_of("priority").origin == "a:9"


FILE = {
    "orphans": {"mode": "dry-run", "older_than": "P5D", "every": "P7D", "max_share": 0.1},
    "row_expiry": {"column": "at", "keep": "P30D", "enabled": False},
    "compaction": {"enabled": False, "level": "major"},
    "expiry": {"enabled": False},
    "manifests": {"enabled": False},
    "major_hours": "22-6",
    "pool": "lake",
    "priority": 5,
    "owner": "team-a",
    "paused": True,
}
# What a stranger may not say, and what he may.
LOOSER = {
    "orphans.mode": ("delete", "off"),
    "orphans.older-than": ("P1D", "P6D"),
    "orphans.every": ("PT1S", "P8D"),
    "orphans.max-share": ("1", "0.05"),
    "row-expiry.column": ("id", None),
    "row-expiry.keep": ("P1D", "P31D"),
    "row-expiry.enabled": ("true", "false"),
    "compaction.enabled": ("true", "false"),
    "compaction.level": ("full", "minor"),
    "compaction.runner": ("arrow", "spark"),
    "expiry.enabled": ("true", "false"),
    "manifests.enabled": ("true", "false"),
    "major-hours": ("12-14", "23-5"),
    "pool": ("big", None),
    "priority": ("6", "4"),
    "owner": ("mallory", None),
    "paused": ("false", "true"),
}


def test_a_table_leaves_a_runner_that_the_file_asks_for() -> None:
    by_arrow = file_layer({"compaction": {"runner": "arrow"}})
    runner = merge(TABLE, [by_arrow]).value_of("compaction.runner")
    assert (runner.value, runner.layer, runner.origin) == ("arrow", Layer.FILE, "policy.yaml:3")
    runner = merge(TABLE, [by_arrow, table_layer(**{"compaction.runner": "spark"})]).value_of("compaction.runner")
    assert (runner.value, runner.layer) == ("spark", Layer.TABLE)


@pytest.mark.parametrize("layer", [table_layer, namespace_layer])
@pytest.mark.parametrize("name", LOOSER)
def test_a_property_restricts_and_what_would_allow_more_is_ignored_with_its_reason(name: str, layer: Any) -> None:
    key = name.replace("-", "_")
    looser, stricter = LOOSER[name]
    without = merge(TABLE, [file_layer(FILE)])
    policy = merge(TABLE, [file_layer(FILE), layer(**{name: looser})])
    (ignored,) = policy.ignored
    assert (policy.policy, policy.values) == (without.policy, without.values)
    assert ignored.key == key
    assert f"property 'lake.maintenance.{name}' of " in ignored.origin
    assert "holds, of the layer " in ignored.reason
    if stricter is not None:
        policy = merge(TABLE, [file_layer(FILE), layer(**{name: stricter})])
        assert policy.ignored == ()
        assert policy.value_of(key).layer in (Layer.TABLE, Layer.NAMESPACE)


SWITCHES = [key for key, each in SETTINGS.items() if each.bound in (ONLY_FALSE, ONLY_TRUE)]


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize("value", ["true", "false"])
def test_a_switch_that_says_what_holds_anyway_is_not_ignored(key: str, value: str) -> None:
    group, _, name = key.rpartition(".")
    named = {name: value == "true"}
    file = file_layer({group: named} if group else named)
    policy = merge(TABLE, [file, table_layer(**{key.replace("_", "-"): value})])
    assert policy.ignored == ()
    assert (policy.value_of(key).value, policy.policy) == (value == "true", merge(TABLE, [file]).policy)


def test_a_table_cannot_allow_again_what_its_namespace_has_forbidden() -> None:
    layers = [file_layer({"orphans": {"mode": "delete"}}), namespace_layer(**{"orphans.mode": "off"})]
    policy = merge(TABLE, [*layers, table_layer(**{"orphans.mode": "delete"})])
    assert policy.policy is not None
    assert policy.policy.orphans.mode is OrphanMode.OFF
    assert [each.layer for each in policy.ignored] == [Layer.TABLE]
    assert "'off' holds, of the layer namespace of property" in policy.ignored[0].reason


def test_a_table_of_which_nobody_allowed_it_expires_no_rows() -> None:
    policy = merged(table_layer(**{"row-expiry.column": "at", "row-expiry.keep": "P1D"}))
    assert (policy.row_expiry.column, policy.row_expiry.keep) == (None, None)


def test_a_table_that_keeps_its_rows_is_off_for_whoever_asks_for_one_field() -> None:
    policy = merged(file_layer(FILE), table_layer(**{"row-expiry.enabled": "false"}))
    assert (policy.row_expiry.column, policy.row_expiry.keep) == (None, None)


def test_what_a_dag_names_holds_whatever_a_table_says() -> None:
    named = {"orphans": {"mode": "delete"}, "paused": False}
    policy = merged(dag_layer(named), table_layer(**{"orphans.mode": "off", "paused": "true"}))
    assert (policy.orphans.mode, policy.paused) == (OrphanMode.DELETE, False)


def test_the_owners_own_settings_are_shown_and_left_to_the_format() -> None:
    properties = {
        "history.expire.max-snapshot-age-ms": "3600000",
        "history.expire.min-snapshots-to-keep": "4",
        "write.target-file-size-bytes": "1048576",
    }
    owned = property_layer(Layer.TABLE, properties, f"table {TABLE}", owner_policy(properties))
    lower = file_layer({"expiry": {"older_than": "P7D", "retain_last": 2}, "compaction": {"target_file_size": "1GB"}})
    policy = merge(TABLE, [lower, owned])
    assert policy.policy is not None
    # None takes the table's own.
    assert (policy.policy.expiry.older_than, policy.policy.expiry.retain_last) == (None, None)
    assert policy.policy.compaction.target_file_size is None
    age = policy.value_of("expiry.older_than")
    assert (age.value, age.layer) == ("PT1H", Layer.TABLE)
    assert age.origin == "property 'history.expire.max-snapshot-age-ms' of the table"
    named = merged(lower, owned, dag_layer({"expiry": {"older_than": "P2D"}}))
    assert (named.expiry.older_than, named.expiry.retain_last) == (timedelta(days=2), None)
    ours = {**properties, "lake.maintenance.expiry.older-than": "P3D"}
    both = property_layer(Layer.TABLE, ours, f"table {TABLE}", owner_policy(ours))
    assert merged(both).expiry.older_than == timedelta(days=3)


def test_a_property_makes_no_files_of_a_byte() -> None:
    tiny = table_layer(**{"compaction.target-file-size": "1"})
    assert merged(tiny).compaction.target_file_size is None
    assert merged(table_layer(**{"compaction.target-file-size": "2MB"})).compaction.target_file_size == 2 << 20
    assert merged(tiny, dag_layer({"compaction": {"target_file_size": 1}})).compaction.target_file_size == 1


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e3", "٣", "9" * 30])
def test_an_owners_setting_that_iceberg_cannot_read_is_left_to_the_action_that_refuses_it(text: str) -> None:
    names = ("history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep")
    assert list(owner_policy(dict.fromkeys((*names, "write.target-file-size-bytes"), text))) == []


def test_a_table_whose_files_may_belong_to_others_loses_none() -> None:
    properties = {"gc.enabled": " False"}
    layer = property_layer(Layer.TABLE, properties, f"table {TABLE}", owner_policy(properties))
    policy = merged(file_layer({"orphans": {"mode": "delete"}}), layer)
    assert (policy.expiry.enabled, policy.orphans.mode) == (False, OrphanMode.OFF)
    (longest, *_) = owner_policy({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert longest.value == timedelta(days=36_500)


def test_settings_of_file_and_dag_that_do_not_go_together_are_refused_with_their_origins() -> None:
    with pytest.raises(InvalidSpecError, match=r"shop\.orders: row_expiry needs keep .*column of policy\.yaml:3"):
        merge(TABLE, [file_layer({"row_expiry": {"column": "at"}})])


def test_settings_of_a_table_that_do_not_go_together_are_ignored_and_its_restrictions_are_not() -> None:
    table = table_layer(**{"compaction.strategy": "zorder", "compaction.level": "minor", "priority": "-1"})
    policy = merge(TABLE, [file_layer({"compaction": {"deleted_share": 0.3}}), table])
    assert policy.policy is not None
    compaction = policy.policy.compaction
    assert (compaction.strategy, compaction.deleted_share) == (CompactionStrategy.BINPACK, 0.3)
    assert (compaction.level.value, policy.policy.priority) == ("minor", -1)
    (ignored,) = policy.ignored
    assert (ignored.key, ignored.value) == ("compaction.strategy", "'zorder'")
    assert "needs compaction.sort_by" in ignored.reason


def test_columns_of_another_layer_do_not_count_where_nothing_is_sorted() -> None:
    columns = file_layer({"compaction": {"sort_by": ["day"], "strategy": "hilbert"}})
    policy = merged(columns, dag_layer({"compaction": {"strategy": "binpack"}}))
    assert (policy.compaction.strategy, policy.compaction.sort_by) == (CompactionStrategy.BINPACK, ())


def test_limits_of_health_come_from_the_policy() -> None:
    limits = merge(TABLE, [file_layer({"fresh_within": "PT6H", "consumed_within": "P1D"})]).limits
    assert (limits.fresh_within, limits.consumed_within) == (timedelta(hours=6), timedelta(days=1))
    assert TablePolicy(table=TABLE, error="broken").limits.fresh_within is None


SPANS = st.integers(1, 4_000).map(lambda hours: timedelta(hours=hours))
DAYS = st.integers(1, 400).map(lambda days: timedelta(days=days))
SHARES = st.floats(0.001, 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "paused": st.booleans(),
    "orphans.mode": st.sampled_from(list(OrphanMode)),
    "orphans.older_than": DAYS,
    "orphans.every": st.integers(1, 2_160).map(lambda hours: timedelta(hours=hours)),
    "orphans.max_share": SHARES,
    "row_expiry.enabled": st.booleans(),
    "row_expiry.column": st.sampled_from(["at", "day"]),
    "row_expiry.keep": SPANS,
    "compaction.strategy": st.sampled_from(list(CompactionStrategy)),
    "compaction.sort_by": st.sampled_from([(), ("a",)]),
    "compaction.enabled": st.booleans(),
    "major_hours": st.none() | st.sampled_from([Hours("22-6"), Hours("0-12"), Hours("1-3")]),
}
NAMED = st.fixed_dictionaries({}, optional=VALUES)
MODES = list(OrphanMode)


def layer_of(layer: Layer, named: dict[str, Any]) -> LayerValues:
    return LayerValues(layer, [NamedValue(key=key, value=value, origin=layer.value) for key, value in named.items()])


@given(NAMED, NAMED, NAMED, NAMED, NAMED)
def test_what_strangers_say_never_loosens_what_deletes_for_good(
    file: dict[str, Any],
    catalog: dict[str, Any],
    namespace: dict[str, Any],
    table: dict[str, Any],
    dag: dict[str, Any],
) -> None:
    trusted = [layer_of(Layer.FILE, file), layer_of(Layer.DAG, dag)]
    strangers = [
        layer_of(Layer.CATALOG, catalog),
        layer_of(Layer.NAMESPACE, namespace),
        layer_of(Layer.TABLE, table),
    ]
    try:
        without = merged(*trusted)
    except InvalidSpecError:
        # Refused for their sake, whatever strangers say.
        return
    policy = merged(*strangers, *trusted)
    assert MODES.index(policy.orphans.mode) <= MODES.index(without.orphans.mode)
    assert policy.orphans.older_than >= without.orphans.older_than
    assert policy.orphans.every >= without.orphans.every
    assert policy.orphans.max_share <= without.orphans.max_share
    rows = policy.row_expiry
    assert rows.column in (None, without.row_expiry.column)
    if rows.column is not None:
        assert rows.keep is not None
        assert without.row_expiry.keep is not None
        assert rows.keep >= without.row_expiry.keep
    assert policy.paused >= without.paused
    assert not policy.compaction.strategy.is_by_curve or policy.compaction.sort_by
