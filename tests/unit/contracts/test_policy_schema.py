"""The schema for editors takes what the reader takes, and refuses what it refuses."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from airflow_lake_provider.contracts.policy_settings import SETTINGS, schema_of_policy_file
from tests.unit.contracts.test_policy_settings import VALUES, WRONG_VALUES

SCHEMA = schema_of_policy_file()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# What only the reader says: lengths of time, templates, signs of control, hours that are none, a size of zero.
LEFT_TO_THE_READER = (
    *("PT0S", "P99999999D", "PT23H", "P91D", "P120D", "P1Y"),
    *(["{{ var.value.secret }}"], "a\nb", "{% raw %}", "6-6", "\x1b[31m"),
)


def file_with(key: str, value: Any) -> dict[str, Any]:
    group, _, name = key.rpartition(".")
    return {"tables": {"shop.*": {group: {name: value}} if group else {name: value}}}


def test_it_is_a_schema_and_says_what_each_setting_is() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    policy = SCHEMA["$defs"]["policy"]["properties"]
    for key, setting in SETTINGS.items():
        group, _, name = key.rpartition(".")
        described = policy[group]["properties"][name] if group else policy[name]
        assert setting.sentence.replace("``", "`") in described["description"]
        VALIDATOR.validate(file_with(key, described["default"]))


@pytest.mark.parametrize("key", VALUES)
def test_it_takes_what_the_reader_takes(key: str) -> None:
    VALIDATOR.validate(file_with(key, VALUES[key][1]))


@pytest.mark.parametrize(
    ("key", "value"), [each[:2] for each in WRONG_VALUES if json.dumps(each[1]) not in ("NaN", "Infinity")]
)
def test_it_refuses_what_the_reader_refuses(key: str, value: Any) -> None:
    is_valid = VALIDATOR.is_valid(file_with(key, value))
    assert is_valid is (value in LEFT_TO_THE_READER or (isinstance(value, str) and len(value) == 5_000))


@pytest.mark.parametrize(
    "given",
    [{"table": {}}, {"tables": []}, {"tables": {"shop": {}}}, {"tables": {"!a.b": {}}}, {"tables": {"a.b": {"x": 1}}}],
)
def test_it_refuses_other_names(given: Any) -> None:
    assert not VALIDATOR.is_valid(given)
