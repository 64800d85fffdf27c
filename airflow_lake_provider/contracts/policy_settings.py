"""The settings of a maintenance policy one by one, by their keys, how a layer names them, and their JSON schema.

``compaction.deleted_share`` is a key. In YAML and in a DAG it is ``deleted_share`` below ``compaction``; as a property
of a table or a namespace it is ``lake.maintenance.compaction.deleted-share``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.author_object import AuthorObject
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.setting_kinds import Bound, Kind
from airflow_lake_provider.contracts.table_properties import MAINTENANCE_PREFIX

# No value of ours is longer; a stranger's may be as long as a metadata file.
LONGEST_PROPERTY = 1_000
_PARAMETER = re.compile(r":param (\w+): (.+?)(?=\n:param |\n\n|\Z)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting, as it is declared.

    :param key: such as ``compaction.deleted_share``.
    :param kind: of its values.
    :param bound: what a property may make of it.
    :param default: where no layer names it.
    :param sentence: says what it is, as its docstring does.
    """

    key: str
    kind: Kind
    bound: Bound
    default: Any
    sentence: str

    @property
    def property_name(self) -> str:
        """Property of a table or a namespace that names it."""
        return f"{MAINTENANCE_PREFIX}{self.key.replace('_', '-')}"


def _declared(cls: type[AuthorObject], within: str = "") -> Iterator[Setting]:
    sentences = dict(_PARAMETER.findall(inspect.getdoc(cls) or ""))
    for each in fields(cls):
        key = f"{within}{each.name}"
        if group := each.metadata.get("group"):
            yield from _declared(group, f"{key}.")
        else:
            yield Setting(
                key=key,
                kind=each.metadata["kind"],
                bound=each.metadata["bound"],
                default=each.default if each.default is not MISSING else None,
                sentence=" ".join(sentences.get(each.name, "").split()),
            )


SETTINGS: Mapping[str, Setting] = {each.key: each for each in _declared(MaintenancePolicy)}
GROUPS: Mapping[str, type[AuthorObject]] = {
    each.name: each.metadata["group"] for each in fields(MaintenancePolicy) if "group" in each.metadata
}
# Of a group; those of the policy itself, with the groups, are below the empty name.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "": tuple(each.name for each in fields(MaintenancePolicy)),
    **{group: tuple(each.name for each in fields(cls)) for group, cls in GROUPS.items()},
}
BY_PROPERTY: Mapping[str, Setting] = {each.property_name: each for each in SETTINGS.values()}


@dataclass(frozen=True, kw_only=True)
class NamedValue:
    """A setting as a layer names it.

    :param key: of the setting.
    :param value: as it was read.
    :param origin: where it is written: file and line, or property.
    :param is_formats: the table format itself reads it from the table, where no other layer names it.
    """

    key: str
    value: Any
    origin: str
    is_formats: bool = False


def read_named(given: object, name: str) -> list[NamedValue]:
    """Read what a DAG or a file names, which may be a part of a policy.

    :param given: mapping of settings; those of a group are below its name.
    :param name: of the argument, for messages and as the origin.
    :raises InvalidSpecError: it is no mapping, a key is not known, or a value is none of its setting.
    """
    return [NamedValue(key=key, value=read_value(key, value, name), origin=name) for key, value in flat(given, name)]


def read_value(key: str, value: object, name: str) -> Any:
    """Read one value.

    :param key: of a setting.
    :param name: of what names it, for the message.
    :raises InvalidSpecError: it is none of the setting.
    """
    return SETTINGS[key].kind.read(value, f"{name}: {key}")


def flat(given: object, name: str, group: str = "") -> Iterator[tuple[str, object]]:
    """Yield key and value of each setting that is named.

    :param name: of the argument, for messages.
    :param group: whose settings they are; empty for those of the policy.
    :raises InvalidSpecError: it is no mapping, or a key is not known.
    """
    if not isinstance(given, Mapping):
        whole = " A MaintenancePolicy has all settings; name those that you mean." if is_policy(given) else ""
        raise InvalidSpecError(f"{name}: {group or 'policy'} must be a mapping of settings, got {given!r}.{whole}")
    for key, value in given.items():
        refuse_unknown(key, name, group)
        if not group and key in GROUPS:
            yield from flat(value, name, key)
        else:
            yield (f"{group}.{key}" if group else key), value


def is_policy(given: object) -> bool:
    """Tell whether it is an object that has a value for each setting."""
    return isinstance(given, AuthorObject)


def refuse_unknown(key: object, name: str, group: str = "") -> None:
    """Refuse a key that no setting has.

    :param key: as it is written.
    :param name: of what names it, for the message.
    :param group: below which it is written; empty for the policy itself.
    :raises InvalidSpecError: with the nearest one.
    """
    names = _NAMES[group]
    if not isinstance(key, str) or key not in names:
        of = f"{group} of a policy" if group else "a policy"
        text = key if isinstance(key, str) else repr(key)
        raise InvalidSpecError(
            f"{name}: {of} has no {shown(text)}{nearest(text[:100], names)}; it has {', '.join(names)}"
        )


def read_properties(properties: Mapping[str, str], of: str) -> list[NamedValue]:
    """Read the settings that properties name; anybody may have written them.

    :param of: whose they are, such as ``table shop.orders``.
    :raises InvalidSpecError: one below our prefix is no setting, or its text is none of the setting.
    """
    ours = sorted(name for name in properties if name.startswith(MAINTENANCE_PREFIX))
    return [_read_property(name, properties[name], of) for name in ours]


def _read_property(name: str, text: object, of: str) -> NamedValue:
    setting = BY_PROPERTY.get(name)
    if setting is None:
        near = nearest(name[:100], BY_PROPERTY)
        raise InvalidSpecError(f"{of}: the property {shown(name)} is no setting{near}; correct or remove it")
    try:
        if not isinstance(text, str) or len(text) > LONGEST_PROPERTY:
            raise InvalidSpecError("it is too long")
        value = setting.kind.read(setting.kind.of_text(text), name)
    except InvalidSpecError:
        words = setting.kind.words.replace("`", "'")
        raise InvalidSpecError(
            f"{of}: the property {name!r} is {shown(str(text))}, expected {words}; correct or remove it"
        ) from None
    return NamedValue(key=setting.key, value=value, origin=f"property {name!r} of {of}")


def schema_of_policy_file() -> dict[str, Any]:
    """Return it, for draft 2020-12."""
    policy = _object({key: _of(each) for key, each in SETTINGS.items() if "." not in key})
    for group, cls in GROUPS.items():
        settings = {key.partition(".")[2]: _of(each) for key, each in SETTINGS.items() if key.startswith(f"{group}.")}
        sentence = (cls.__doc__ or "").partition("\n")[0]
        policy["properties"][group] = {**_object(settings), "description": sentence}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Maintenance policies of lake tables",
        **_object({"tables": _tables()}),
        "$defs": {"policy": policy},
    }


def _tables() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Policies by patterns of table names. Of those that match, a later one goes before an earlier.",
        "propertyNames": {"pattern": r"^(?=.*[.*?])[\w.*?-]+$"},
        "additionalProperties": {"$ref": "#/$defs/policy"},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _of(setting: Setting) -> dict[str, Any]:
    words = f"{setting.sentence} It is {setting.kind.words}.".replace("``", "`")
    return {**setting.kind.schema, "description": words, "default": to_plain(setting.default)}
