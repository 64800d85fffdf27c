"""The JSON schema of a file of policies, made from the declared settings, by which editors complete and check it."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.policy_settings import GROUPS, SETTINGS, Setting


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
