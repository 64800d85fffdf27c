"""Merge the layers of a table's policy, key by key, and keep for each value where it comes from.

Whoever may alter a table or a namespace chooses its properties, and whoever serves a catalog its policies. So these
layers are bound: they may restrict what deletes for good, and never allow it. Decision 36 has the reasons. Policies of
a catalog are those that Apache Polaris keeps, by the schemas of 2025-02-03.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from types import NoneType
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionStrategy,
    MaintenancePolicy,
)
from airflow_lake_provider.contracts.author_object import AuthorObject
from airflow_lake_provider.contracts.durations import short_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.policy_settings import (
    GROUPS,
    SETTINGS,
    NamedValue,
    read_named,
    read_properties,
    read_value,
)
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.maintenance.score import HealthLimits
from airflow_lake_provider.tables.base import CatalogPolicy

# What a report shows of a value.
_LONGEST_SHOWN = 300
# Polaris' own examples have 200 characters.
_LONGEST_CONTENT = 20_000
_Named = Iterator[tuple[str, object]]


class Layer(str, Enum):
    """Layers of a policy, from the lowest: a later one goes before an earlier one."""

    DEFAULTS = "defaults"
    TUNED = "tuned"
    FILE = "file"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    DAG = "dag"

    @property
    def is_bound(self) -> bool:
        """True for layers that strangers may write."""
        return self in (Layer.CATALOG, Layer.NAMESPACE, Layer.TABLE)


@dataclass(frozen=True, kw_only=True)
class EffectiveValue:
    """Value of one setting, and where it comes from.

    :param key: such as ``orphans.mode``.
    :param value: as JSON has it.
    :param layer: the last that named it.
    :param origin: file and line, or property; empty for a default.
    """

    key: str
    value: Any
    layer: Layer = Layer.DEFAULTS
    origin: str = ""


@dataclass(frozen=True, kw_only=True)
class IgnoredValue:
    """Value that does not hold, though a layer names it.

    :param key: such as ``orphans.mode``.
    :param value: as a text, cut where it is long.
    :param layer: that names it.
    :param origin: property or policy of the catalog.
    :param reason: a sentence.
    """

    key: str
    value: str
    layer: Layer
    origin: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class TablePolicy:
    """Policy of one table, with the origin of each value.

    :param table: whole name.
    :param policy: that holds. A setting that the format itself reads from the table is None in it. None where it could
        not be read, and then the table must not be maintained.
    :param values: one for each setting.
    :param ignored: values that do not hold.
    :param error: why the policy could not be read.
    """

    table: str
    policy: MaintenancePolicy | None = None
    values: tuple[EffectiveValue, ...] = ()
    ignored: tuple[IgnoredValue, ...] = ()
    error: str | None = None

    @property
    def limits(self) -> HealthLimits:
        """Limits that the table's health is judged by."""
        return limits_of(self.policy or MaintenancePolicy())

    def value_of(self, key: str) -> EffectiveValue:
        """Return the value of a setting.

        :raises KeyError: there is none of that key.
        """
        return {each.key: each for each in self.values}[key]


def limits_of(policy: MaintenancePolicy) -> HealthLimits:
    """Return the limits by which a table's health is read, so that a policy's thresholds find what they are about."""
    compaction = policy.compaction
    # What was added counts from a number on, whatever share of the table it is.
    grows = compaction.waits_for_growth
    is_ordered = compaction.enabled and compaction.level is CompactionLevel.FULL
    has_order = is_ordered and compaction.strategy is not CompactionStrategy.BINPACK
    return HealthLimits(
        fresh_within=policy.fresh_within,
        consumed_within=policy.consumed_within,
        older_than=policy.expiry.older_than,
        retain_last=policy.expiry.retain_last,
        target_bytes=compaction.target_file_size,
        small_files=0.0 if grows else compaction.small_file_share,
        fewest_merged=compaction.min_input_files,
        deleted_rows=compaction.deleted_share,
        delete_files=0.0 if grows else compaction.delete_files_per_data_file,
        manifests=policy.manifests.mergeable,
        order=compaction.strategy if has_order else None,
    )


@dataclass(frozen=True)
class LayerValues:
    """Settings that one layer names, in the order in which they hold.

    :param layer: which.
    :param named: later ones go before earlier ones.
    :param ignored: keys that it names in a way that no setting has, with reasons.
    """

    layer: Layer
    named: Sequence[NamedValue] = ()
    ignored: Sequence[IgnoredValue] = ()


def dag_layer(given: Mapping[str, Any] | None) -> LayerValues:
    """Return what a DAG names itself.

    :param given: settings as YAML has them; one that is left out is not named.
    :raises InvalidSpecError: a key is not known, or a value is none of its setting.
    """
    return LayerValues(Layer.DAG, read_named(given, "policy of the DAG") if given else ())


def property_layer(
    layer: Layer, properties: Mapping[str, str], of: str, formats: Iterable[NamedValue] = ()
) -> LayerValues:
    """Return what properties name.

    :param of: whose they are, such as ``table shop.orders``.
    :param formats: settings that the table format itself has in other properties; ours go before them.
    :raises InvalidSpecError: one of ours is no setting, or its text is none of the setting.
    """
    return LayerValues(layer, (*formats, *read_properties(properties, of)))


@dataclass
class _Merge:
    """Values by key as the layers come, each with its layer."""

    named: dict[str, tuple[NamedValue, Layer]] = field(default_factory=dict)
    ignored: list[IgnoredValue] = field(default_factory=list)

    @classmethod
    def of(cls, layers: Iterable[LayerValues]) -> _Merge:
        merged, order = cls(), list(Layer)
        for layer in sorted(layers, key=lambda each: order.index(each.layer)):
            merged.add(layer)
        return merged

    def add(self, values: LayerValues) -> None:
        self.ignored += values.ignored
        for each in values.named:
            permits = SETTINGS[each.key].bound.permits
            if permits is None or not values.layer.is_bound or permits(self.value(each.key), each.value):
                self.named[each.key] = each, values.layer
            else:
                self.ignored.append(_ignored(each, values.layer, self.objection(each.key)))

    def value(self, key: str) -> Any:
        return self.named[key][0].value if key in self.named else SETTINGS[key].default

    def objection(self, key: str) -> str:
        given, layer = self.named.get(key, (None, Layer.DEFAULTS))
        origin = f" of {given.origin}" if given else ""
        words = SETTINGS[key].bound.words
        return f"the layer may set {words} here; {_text(self.value(key))} holds, of the layer {layer.value}{origin}"

    def group(self, name: str) -> AuthorObject:
        given = {key: value for key, value in self.settings() if key.startswith(f"{name}.")}
        return GROUPS[name](**{key.partition(".")[2]: value for key, value in given.items()})

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield what is named, but for what the format reads itself."""
        return ((key, each.value) for key, (each, _) in self.named.items() if not each.is_formats)

    def unfit_groups(self) -> dict[str, str]:
        """Return why the settings of a group do not go together, by its name."""
        reasons = {}
        for name in GROUPS:
            try:
                self.group(name)
            except InvalidSpecError as error:
                reasons[name] = str(error)
        return reasons

    def policy(self) -> MaintenancePolicy:
        own = {key: value for key, value in self.settings() if "." not in key}
        groups: dict[str, Any] = {name: self.group(name) for name in GROUPS}
        return MaintenancePolicy(**own, **groups)

    def effective(self, key: str) -> EffectiveValue:
        if key not in self.named:
            return EffectiveValue(key=key, value=_plain(SETTINGS[key].default))
        each, layer = self.named[key]
        return EffectiveValue(key=key, value=_plain(each.value), layer=layer, origin=each.origin)

    def origins(self, group: str) -> str:
        return "; ".join(f"{key} of {each.origin}" for key, (each, _) in self.named.items() if key.startswith(group))


def merge(table: str, layers: Sequence[LayerValues]) -> TablePolicy:
    """Return the policy of a table.

    :param table: whole name.
    :param layers: in any order, each at most once; the defaults are below all of them.
    :raises InvalidSpecError: settings of file and DAG do not go together.
    """
    merged = _Merge.of(layers)
    if unfit := merged.unfit_groups():
        # A stranger's settings may not go together with the others, and then those of that group do not hold.
        merged = _Merge.of(_without(layer, unfit) for layer in layers)
        for group, why in merged.unfit_groups().items():
            raise InvalidSpecError(f"{table}: {why}; {merged.origins(f'{group}.')}")
    return TablePolicy(
        table=table,
        policy=merged.policy(),
        values=tuple(map(merged.effective, SETTINGS)),
        ignored=tuple(merged.ignored),
    )


def _without(layer: LayerValues, unfit: Mapping[str, str]) -> LayerValues:
    """Return a stranger's layer without settings of groups, but for those that restrict."""
    if not layer.layer.is_bound:
        return layer
    left_out = [
        each
        for each in layer.named
        if each.key.partition(".")[0] in unfit and SETTINGS[each.key].bound.permits is None and not each.is_formats
    ]
    ignored = [_ignored(each, layer.layer, unfit[each.key.partition(".")[0]]) for each in left_out]
    named = [each for each in layer.named if each not in left_out]
    return LayerValues(layer.layer, named, [*layer.ignored, *ignored])


def _ignored(each: NamedValue, layer: Layer, reason: str) -> IgnoredValue:
    return IgnoredValue(key=each.key, value=_text(each.value), layer=layer, origin=each.origin, reason=reason)


def _plain(value: Any) -> Any:
    return short_iso(value) if isinstance(value, timedelta) else to_plain(value)


def _text(value: Any) -> str:
    plain = _plain(value)
    return shown(plain) if isinstance(plain, str) else json.dumps(plain)[:_LONGEST_SHOWN]


def catalog_layer(policies: Sequence[CatalogPolicy]) -> LayerValues:
    """Return what policies of a catalog name.

    :param policies: later ones go before earlier ones. Types that are not of maintenance are left out.
    :raises InvalidSpecError: the content of one is not what its type asks for.
    """
    named = list[NamedValue]()
    for policy in policies:
        if policy.kind not in _POLARIS_KINDS:
            continue
        origin = f"policy {shown(policy.name)} of the catalog, {policy.kind}"
        try:
            for key, value in _POLARIS_KINDS[policy.kind](_polaris_content(policy.content)):
                named.append(NamedValue(key=key, value=read_value(key, value, origin), origin=origin))
        except InvalidSpecError:
            # It may forbid what the file allows.
            raise InvalidSpecError(
                f"{origin}: its content is {shown(policy.content)}, which is not what the type of the policy asks for; "
                "correct or detach it"
            ) from None
    return LayerValues(Layer.CATALOG, named)


def _polaris_content(text: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text) if len(text) <= _LONGEST_CONTENT else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("enable"), bool):
        raise InvalidSpecError("content needs enable")
    if not isinstance(content.get("config"), (dict, NoneType)):
        raise InvalidSpecError("config is no object")
    return content


def _polaris_config(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return content.get("config") or {}


def _whole(value: object) -> object:
    """Return a number of JSON, which has no kind, as a whole one where it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _polaris_compaction(content: Mapping[str, Any]) -> _Named:
    yield "compaction.enabled", content["enable"]
    # The schema has it at the top, and a guide of Polaris in config.
    size = content.get("target_file_size_bytes", _polaris_config(content).get("target_file_size_bytes"))
    if size is not None:
        yield "compaction.target_file_size", _whole(size)


def _polaris_manifests(content: Mapping[str, Any]) -> _Named:
    yield "manifests.enabled", content["enable"]


def _polaris_orphans(content: Mapping[str, Any]) -> _Named:
    # Its older_than is a moment and no age, and a location other than the table's is not looked at.
    yield "orphans.mode", "delete" if content["enable"] else "off"


def _polaris_expiry(content: Mapping[str, Any]) -> _Named:
    yield "expiry.enabled", content["enable"]
    config = _polaris_config(content)
    if (days := config.get("max_snapshot_age_days")) is not None:
        yield "expiry.older_than", f"P{_whole(days)}D"
    if (number := config.get("min_snapshot_to_keep")) is not None:
        yield "expiry.retain_last", _whole(number)


_POLARIS_KINDS: Mapping[str, Callable[[Mapping[str, Any]], _Named]] = {
    "system.data-compaction": _polaris_compaction,
    "system.metadata-compaction": _polaris_manifests,
    "system.orphan-file-removal": _polaris_orphans,
    "system.snapshot-expiry": _polaris_expiry,
}
