"""A table's mapping of names to field ids is judged by the paths that Iceberg looks up, not by all of their product."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_lake_provider.iceberg.owner_settings import unusable_settings


def nested(depth: int, names: int) -> list[dict[str, Any]]:
    """Return a struct in a struct, and so on, each with many names."""
    named = {"field-id": depth, "names": [f"n{number}" for number in range(names)]}
    return [{**named, "fields": nested(depth - 1, names)}] if depth else []


@pytest.mark.parametrize("field", [{"names": ["n1.n2"]}, {"names": ["other"]}])
def test_a_path_that_stands_twice_is_unusable_and_a_mapping_of_strangers_ends(field: dict[str, Any]) -> None:
    text = json.dumps([*nested(2, 5), field])
    assert bool(unusable_settings({"schema.name-mapping.default": text})) is (field == {"names": ["n1.n2"]})
    # 30 to the power of 9 paths.
    unusable_settings({"schema.name-mapping.default": json.dumps(nested(9, 30))})


@pytest.mark.parametrize("depth", [1, 300, 400])
@pytest.mark.parametrize("innermost", [{"field-id": 0, "names": ["x"]}, {"field-id": "0"}, {"field-id": 1}])
def test_a_mapping_as_deep_as_iceberg_reads_is_judged_by_its_innermost_field(
    depth: int, innermost: dict[str, Any]
) -> None:
    # Java reads 500 levels of two brackets each.
    text = f"[{json.dumps(innermost)}]"
    for number in range(1, depth + 1):
        text = f'[{{"field-id": {number}, "names": ["a"], "fields": {text}}}]'
    assert bool(unusable_settings({"schema.name-mapping.default": text})) is ("names" not in innermost)
