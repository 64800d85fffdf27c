"""A table rules out what the declaration of its format says that its version lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.capability_names import CAPABILITIES, Capability
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_facts import TableShape
from airflow_lake_provider.iceberg.table_obstacles import unfit_for, with_change_columns
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FILE, POSITION
from tests.table_facts import table_of


@pytest.mark.parametrize("version", ICEBERG.versions)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_plain_table_rules_out_what_its_version_lacks_and_nothing_else(capability: str, version: int) -> None:
    why = unfit_for(table_of(format_version=version).shape, capability)
    assert (why is None) == (ICEBERG.gap(capability, version) is None), why


# The last is a word of authors that is no strategy, and so no capability of Iceberg's.
@pytest.mark.parametrize("capability", ["strategy-x", "strategy-", "strategy-positions-of-x", "strategy-auto"])
def test_a_strategy_that_another_format_declares_never_becomes_icebergs(
    monkeypatch: pytest.MonkeyPatch, capability: str
) -> None:
    monkeypatch.setitem(CAPABILITIES, capability, Capability("strategies", "reach rows as the other format does"))
    lacking = "nobody has written it: reach rows as the other format does"
    assert [unfit_for(table_of(format_version=each).shape, capability, ["id"]) for each in ICEBERG.versions] == [
        lacking for _ in ICEBERG.versions
    ]
    assert {each.reason: each.possible for each in ICEBERG.verdicts(2) if each.use == capability} == {lacking: False}
    with pytest.raises(UnsupportedError, match=f"'iceberg' lacks '{capability}', {lacking}; it has strategy-"):
        ICEBERG.refuse_lacking("shop.orders", (capability,))


_WRITING = ("upsert", "append", "overwrite-partitions", "update-rows", "compaction")
_READING = ("delete-rows", "row-expiry", "lake-table-source", "read-changes", "file-lists", "statistics")
_OTHERS = ("snapshot-expiry", "metadata-changes", "health")


def _term(transform: str) -> Mapping[str, object]:
    return {"source-id": 1, "field-id": 1000, "name": "place", "transform": transform}


# The last is what PyIceberg makes of one that it does not know.
@pytest.mark.parametrize("transform", ["zorder[3]", "bucketV2[3]", "geohash", "hours", "unknown"])
@pytest.mark.parametrize("is_current", [True, False])
def test_a_table_that_iceberg_makes_no_partitions_of_is_refused_by_all_that_reads_them(
    transform: str, is_current: bool
) -> None:
    specs = {0: [_term("identity")], 1: [_term(transform)]}
    shape = replace(table_of().shape, partition_specs=specs, spec_id=int(is_current))
    for capability in (*_WRITING, *_READING, "remove-orphans"):
        assert f"place ({transform})" in (unfit_for(shape, capability) or ""), capability
    assert [unfit_for(shape, capability) for capability in _OTHERS] == [None] * len(_OTHERS)


@pytest.mark.parametrize("transform", ["zorder[3]", "geohash", "unknown"])
def test_a_table_of_an_unknown_order_is_refused_by_all_that_writes_data_files(transform: str) -> None:
    shape = replace(table_of().shape, sort_order=[_term("bucket[4]"), _term(transform)])
    for capability in _WRITING:
        assert f"sort order has {transform}," in (unfit_for(shape, capability) or ""), capability
    others = (*_READING, *_OTHERS, "remove-orphans")
    assert [unfit_for(shape, capability) for capability in others] == [None] * len(others)


@pytest.mark.parametrize("transform", ["identity", "void", "hour", "Day", "bucket[16]", "TRUNCATE[3]", "year", "month"])
def test_transforms_of_the_table_spec_are_no_obstacle(transform: str) -> None:
    shape = replace(table_of().shape, partition_specs={0: [_term(transform)]}, sort_order=[_term(transform)])
    asked = (*_WRITING, *_READING, *_OTHERS, "remove-orphans")
    assert [unfit_for(shape, capability) for capability in asked] == [None] * len(asked)


@pytest.mark.parametrize("transform", ["identity", "bucket[2]", "day", "void"])
def test_a_merge_by_merge_on_read_needs_the_columns_of_all_partition_specs(transform: str) -> None:
    column = {"id": 1, "name": "id", "required": False, "type": "date"}
    plain = replace(table_of(properties={"write.merge.mode": "merge-on-read"}).shape, schemas={0: {"fields": [column]}})
    of_dropped = {**_term(transform), "source-id": 2}
    for fields, refused in (([_term(transform)], False), ([of_dropped], True)):
        shape = replace(plain, partition_specs={0: [], 1: fields})
        assert ("was dropped (place)" in (unfit_for(shape, "strategy-merge") or "")) is refused
        assert unfit_for(shape, "strategy-copy-on-write") is None
        assert unfit_for(replace(shape, properties={}), "strategy-merge") is None


def test_a_void_field_of_a_dropped_column_beside_another_one_is_in_the_way_of_all_that_writes_data_files() -> None:
    column = {"id": 1, "name": "id", "required": False, "type": "date"}
    plain = replace(table_of().shape, schemas={0: {"fields": [column]}})
    lost = {**_term("void"), "source-id": 2, "name": "region"}
    by_day = replace(plain, partition_specs={0: [lost, _term("day")]})
    for capability in _WRITING:
        assert "its partition field region" in (unfit_for(by_day, capability) or ""), capability
    assert [unfit_for(by_day, each) for each in (*_READING, *_OTHERS)] == [None] * len((*_READING, *_OTHERS))
    others = ([lost], [_term("day")], [_term("void"), {**_term("day"), "name": "day"}])
    for fields in others:
        shape = replace(plain, partition_specs={0: fields, 1: [lost, _term("day")]})
        assert [unfit_for(shape, each) for each in _WRITING] == [None] * len(_WRITING)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_a_table_of_version_1_is_to_be_upgraded_before_its_void_field_is_dropped(version: int) -> None:
    column = {"id": 1, "name": "id", "required": False, "type": "date"}
    lost = {**_term("void"), "source-id": 2, "name": "region"}
    plain = table_of(format_version=version).shape
    shape = replace(plain, schemas={0: {"fields": [column]}}, partition_specs={0: [lost, _term("day")]})
    why = unfit_for(shape, "compaction") or ""
    assert ("upgrade it to version 2 with LakeTableUpgradeOperator" in why) == (version == 1)
    assert why.endswith("repeat ALTER TABLE ... DROP PARTITION FIELD region")


def _with_column(name: str, version: int) -> TableShape:
    columns = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    columns.append({"id": 2, "name": name, "required": False, "type": "string"})
    return replace(table_of(format_version=version).shape, schemas={0: {"fields": columns}})


_OF_ROWS = ("upsert", "delete-rows", "update-rows", "row-expiry", "strategy-merge", "strategy-equality")
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_METADATA = ("_deleted", "_file", "_partition", "_pos", "_spec_id", *_LINEAGE)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", sorted(ICEBERG.reserved_columns))
def test_a_column_under_a_name_of_icebergs_is_in_the_way_of_what_reads_it(name: str, version: int) -> None:
    shape = _with_column(name, version)
    for capability in _OF_ROWS:
        is_told = f"it has a column {name}, a name" in (unfit_for(shape, capability, ["id"]) or "")
        assert is_told is (name in _METADATA), capability
    for capability in ("append", "overwrite-partitions", "compaction"):
        assert (unfit_for(shape, capability) is not None) is (version == 3 and name in _LINEAGE), capability
    if version == 3 and (name == "_change_type" or name in _METADATA):
        assert f"has a column {name}; rename it" in (unfit_for(shape, "read-changes") or "")
    nested = replace(shape, schemas={0: {"fields": [_struct_with(name)]}})
    assert unfit_for(nested, "upsert") is unfit_for(nested, "update-rows") is None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", _METADATA)
def test_a_name_of_icebergs_in_capitals_is_in_the_way_where_rows_are_read_beside_it(name: str, version: int) -> None:
    shape = _with_column(name.upper(), version)
    is_read = name in ("_file", "_pos") or (version == 3 and name in _LINEAGE)
    for capability in (*_OF_ROWS, "strategy-positions", "strategy-copy-on-write"):
        assert (unfit_for(shape, capability, ["id"]) is not None) is is_read, capability
    if version == 3:
        assert (unfit_for(shape, "read-changes") is not None) is (name in _LINEAGE)
    on_read = replace(shape, properties={"write.merge.mode": "merge-on-read"})
    is_of_merge = is_read or name in ("_partition", "_spec_id")
    assert (unfit_for(on_read, "strategy-merge", ["id"]) is not None) is is_of_merge


def _struct_with(name: str) -> Mapping[str, object]:
    inner = {"id": 3, "name": name, "required": False, "type": "string"}
    return {"id": 2, "name": "s", "required": False, "type": {"type": "struct", "fields": [inner]}}


@pytest.mark.parametrize("name", [FILE, POSITION])
def test_a_column_under_which_places_of_rows_are_read_leaves_the_strategies_that_read_none(name: str) -> None:
    shape = _with_column(name.upper(), 3)
    fit = {each: unfit_for(shape, f"strategy-{each}", ["id"]) is None for each in ("positions", "copy-on-write")}
    assert fit == {"positions": False, "copy-on-write": False}
    for capability in ("strategy-merge", "strategy-equality", "upsert", "append", "delete-rows", "compaction"):
        assert unfit_for(shape, capability, ["id"]) is None, capability
    assert f"it has a column {name.upper()}" in (unfit_for(shape, "row-expiry") or "")


@pytest.mark.parametrize(
    "name", ["_change_type", "_Lake_Key_12", "_lake_row", "_lake_row_id", "_lake_pos", "_lake_file"]
)
def test_a_column_that_a_read_of_changes_has_beside_the_tables_is_refused_and_no_other(name: str) -> None:
    assert with_change_columns(["id", name]) == f"has a column {name}; rename it to read its changes"
    assert with_change_columns(["id", f"{name}_of_ours", f"x{name}"]) is None
