"""Names of tags and branches that are made: what a template leaves around or in them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec, DropTagSpec

UNFIT = ["v1\n", " v1", "v1\t", "v\x001", "v\x1b[2J1", "v\u200b1"]


def tag(name: object, kind: Any = CreateTagSpec) -> str:
    return str(kind(table="shop.orders", tag=name).tag)


@pytest.mark.parametrize("name", UNFIT, ids=ascii)
def test_a_name_that_nobody_could_type_is_not_made(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"tag must have no line break .* got '"):
        tag(name)
    with pytest.raises(InvalidSpecError, match=r"branch must have no line break .* got '"):
        AppendSpec(table="shop.orders", source=Files("a.parquet"), branch=name)


@pytest.mark.parametrize("name", UNFIT, ids=ascii)
def test_a_tag_that_somebody_else_has_named_so_can_be_dropped(name: str) -> None:
    assert tag(name, DropTagSpec) == name


@pytest.mark.parametrize("name", ["v1", "été 2026", "a/b", "20261129", 7])
def test_other_names_are_made(name: Any) -> None:
    assert tag(name) == str(name)
    assert AppendSpec(table="shop.orders", source=Files("a.parquet"), branch=name).branch == str(name)
