"""Read the maintenance policies that Apache Polaris keeps, by the schemas of 2025-02-03, as a layer of ours.

They are written by whoever may attach policies in the catalog, so the layer is bound like properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.policy_settings import NamedValue, read_value
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.maintenance.policy import Layer, LayerValues
from airflow_lake_provider.tables.base import CatalogPolicy

# Polaris' own examples have 200 characters.
_LONGEST_CONTENT = 20_000
_Named = Iterator[tuple[str, object]]


def catalog_layer(policies: Sequence[CatalogPolicy]) -> LayerValues:
    """Return what policies of a catalog name.

    :param policies: later ones go before earlier ones. Types that are not of maintenance are left out.
    :raises InvalidSpecError: the content of one is not what its type asks for.
    """
    named = list[NamedValue]()
    for policy in policies:
        if policy.kind not in _KINDS:
            continue
        origin = f"policy {shown(policy.name)} of the catalog, {policy.kind}"
        try:
            for key, value in _KINDS[policy.kind](_content(policy.content)):
                named.append(NamedValue(key=key, value=read_value(key, value, origin), origin=origin))
        except InvalidSpecError:
            # It may forbid what the file allows.
            raise InvalidSpecError(
                f"{origin}: its content is {shown(policy.content)}, which is not what the type of the policy asks for; "
                "correct or detach it"
            ) from None
    return LayerValues(Layer.CATALOG, named)


def _content(text: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text) if len(text) <= _LONGEST_CONTENT else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("enable"), bool):
        raise InvalidSpecError("content needs enable")
    if not isinstance(content.get("config"), (dict, NoneType)):
        raise InvalidSpecError("config is no object")
    return content


def _config(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return content.get("config") or {}


def _whole(value: object) -> object:
    """Return a number of JSON, which has no kind, as a whole one where it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _compaction(content: Mapping[str, Any]) -> _Named:
    yield "compaction.enabled", content["enable"]
    # The schema has it at the top, and a guide of Polaris in config.
    size = content.get("target_file_size_bytes", _config(content).get("target_file_size_bytes"))
    if size is not None:
        yield "compaction.target_file_size", _whole(size)


def _manifests(content: Mapping[str, Any]) -> _Named:
    yield "manifests.enabled", content["enable"]


def _orphans(content: Mapping[str, Any]) -> _Named:
    # Its older_than is a moment and no age, and a location other than the table's is not looked at.
    yield "orphans.mode", "delete" if content["enable"] else "off"


def _expiry(content: Mapping[str, Any]) -> _Named:
    yield "expiry.enabled", content["enable"]
    config = _config(content)
    if (days := config.get("max_snapshot_age_days")) is not None:
        yield "expiry.older_than", f"P{_whole(days)}D"
    if (number := config.get("min_snapshot_to_keep")) is not None:
        yield "expiry.retain_last", _whole(number)


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], _Named]] = {
    "system.data-compaction": _compaction,
    "system.metadata-compaction": _manifests,
    "system.orphan-file-removal": _orphans,
    "system.snapshot-expiry": _expiry,
}
