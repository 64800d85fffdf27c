"""Every argument of every operator, given something that it cannot be: a spec of the right types, or a sentence."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import spec_from_plain
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

RIGHT: dict[type[LakeJobOperator[Any]], dict[str, Any]] = {
    LakeUpsertOperator: {"table": "shop.orders", "source": "in/*.parquet", "keys": ["id"]},
    LakeIncrementalOperator: {
        "source": "shop.source",
        "target": "shop.orders",
        "consumer": "c",
        "keys": ["id"],
        "query": "SELECT * FROM changes",
    },
    LakeDeleteRowsOperator: {"table": "shop.orders", "keys_from": "in/keys.csv", "keys": ["id"]},
    LakeUpdateRowsOperator: {"table": "shop.orders", "assignments": {"n": "n + 1"}, "where": "id = 3"},
    LakeCompactionOperator: {"table": "shop.orders"},
    LakeSnapshotExpiryOperator: {"table": "shop.orders"},
}
WRONG: list[Any] = [
    None,
    5,
    2.5,
    True,
    "",
    "x y",
    "{{ ds }}",
    [],
    [None],
    ["a", 5],
    {},
    {"a": None},
    {"a": 5},
    {"a": ["b", None]},
    {None: "a"},
    {"a": "{{ ds }}"},
    {"properties": {"a": None}},
    {"target_file_size": "big"},
    object(),
]


# Where the report goes is refused before a submission; Airflow itself reads what it says of retries.
READ_ELSEWHERE = {"of_job", "of_application", "of_spark_submit", "report_location", "retry_policy", "retry_delay"}


def arguments_of(operator: type[LakeJobOperator[Any]]) -> Iterator[str]:
    """Names of the operator's own arguments."""
    own = [*inspect.signature(operator).parameters, *inspect.signature(LakeJobOperator).parameters]
    for name in dict.fromkeys(own):
        if name not in READ_ELSEWHERE | ({"table"} if "target" in own else set()):
            yield name


def cases() -> Iterator[Any]:
    for operator in RIGHT:
        for name in arguments_of(operator):
            yield pytest.param(operator, name, id=f"{operator.__name__}-{name}")


@pytest.fixture
def source_with_rows(lake_catalog: SqlCatalog) -> None:
    """The table ``shop.source``, which an incremental run reads the head of."""
    table = lake_catalog.create_table("shop.source", schema=pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))


def misfits(value: Any, hint: Any, where: str) -> Iterator[str]:
    """Say where a spec has a value that its field does not declare."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if all(list(misfits(value, choice, where)) for choice in inner):
            yield f"{where} is {value!r}, no {hint}"
    elif is_dataclass(hint) and isinstance(value, typing.cast("type", hint)):
        hints = typing.get_type_hints(hint)
        for field in fields(hint):
            yield from misfits(getattr(value, field.name), hints[field.name], f"{where}.{field.name}")
    elif origin in (tuple, Sequence) and isinstance(value, tuple):
        yield from (text for place, item in enumerate(value) for text in misfits(item, inner[0], f"{where}[{place}]"))
    elif origin in (dict, Mapping) and isinstance(value, dict):
        for key, item in value.items():
            yield from misfits(key, inner[0], f"{where} key")
            yield from misfits(item, inner[1], f"{where}[{key!r}]")
    elif hint is not Any and type(value) is not (hint or type(None)):
        yield f"{where} is {value!r}, no {hint}"


def built(operator: type[LakeJobOperator[Any]], arguments: Mapping[str, Any], context: Context) -> JobSpec:
    return operator(task_id="t", **arguments).build_spec(context)


def attempted(operator: type[LakeJobOperator[Any]], arguments: Mapping[str, Any], context: Context) -> JobSpec | str:
    """The spec, or the sentence that refuses it; any other error is a defect."""
    try:
        return built(operator, arguments, context)
    except (InvalidSpecError, InvalidConnectionError) as refused:
        return str(refused)


@pytest.mark.parametrize(("operator", "name"), cases())
def test_an_argument_that_cannot_be_is_named_and_what_is_taken_has_its_type(
    lake_connection: str, source_with_rows: None, context: Context, operator: type[LakeJobOperator[Any]], name: str
) -> None:
    for wrong in WRONG:
        found = attempted(operator, {**RIGHT[operator], name: wrong}, context)
        if isinstance(found, JobSpec):
            assert not list(misfits(found, type(found), name)), f"{name}={wrong!r}"
            assert spec_from_plain({"action": found.action, "spec": to_plain(found)}) == found
        else:
            # A text of the right type is told by itself: it is the table, path or format that nobody knows.
            itself = repr(wrong) if isinstance(wrong, str) and wrong.strip() else name
            entries = [repr(key) for key in wrong] if isinstance(wrong, dict) else []
            assert any(words in found for words in (name, itself, *entries)), found


NEVER = [
    (LakeUpsertOperator, "keys", "id"),
    (LakeUpsertOperator, "keys", {"id": "x"}),
    (LakeUpsertOperator, "merge_engine", {"type": "aggregation", "aggregates": {"n": None}}),
    (LakeUpsertOperator, "merge_engine", {"type": "aggregation", "aggregates": {"n": ["sum"]}}),
    (LakeUpsertOperator, "merge_engine", {"type": "partial-update", "sequence_groups": {"at": "price"}}),
    (LakeUpsertOperator, "merge_engine", {"type": "partial-update", "sequence_groups": ["at"]}),
    (LakeUpsertOperator, "merge_engine", {"type": "deduplicate", "ignore_stale": "yes"}),
    (LakeUpsertOperator, "max_attempts", "many"),
    (LakeUpsertOperator, "delete_when", "op = '{{ params.op }}'"),
    (LakeUpsertOperator, "create", None),
    (LakeUpsertOperator, "create", {"properties": {"a": None}}),
    (LakeUpsertOperator, "create", {"target_file_size": "128 megabytes"}),
    (LakeUpsertOperator, "create", {"target_file_size": 0}),
    (LakeUpsertOperator, "create", {"partition_summary_limit": 0}),
    (LakeUpsertOperator, "create", {"partition_summary_limit": "some"}),
    (LakeCompactionOperator, "target_file_size", "half"),
    (LakeCompactionOperator, "target_file_size", -5),
    (LakeCompactionOperator, "delete_ratio_threshold", "0.5 %"),
    (LakeUpdateRowsOperator, "assignments", {"n": 5}),
    (LakeUpdateRowsOperator, "assignments", {"n": "{{ params.n }}"}),
    (LakeDeleteRowsOperator, "keys_from", {"type": "files", "path": "in/a.csv", "options": {"header": None}}),
    (LakeUpsertOperator, "source", {"type": "files", "path": "in/a.csv", "options": {"header": None}}),
    (LakeUpsertOperator, "source", {"type": "files", "path": "in/a.csv", "options": [("header", "true")]}),
    (LakeUpsertOperator, "schema_contract", "none"),
    (LakeUpsertOperator, "audits", {"a": None}),
    (LakeUpsertOperator, "branch", 5.5),
    (LakeUpsertOperator, "batch_id", 2026.5),
    (LakeUpsertOperator, "on_repeat", "never"),
    (LakeIncrementalOperator, "schema_contract", {"exclude_columns": ["n"]}),
    (LakeIncrementalOperator, "protect_source", "maybe"),
]


@pytest.mark.parametrize(("operator", "name", "wrong"), NEVER)
def test_what_no_template_can_mend_is_refused_when_the_dag_is_parsed(
    lake_connection: str, operator: type[LakeJobOperator[Any]], name: str, wrong: Any
) -> None:
    with pytest.raises(InvalidSpecError, match=name):
        operator(task_id="t", **{**RIGHT[operator], name: wrong})


@pytest.mark.parametrize(
    ("name", "template", "wrong"),
    [
        ("source", {"type": "files", "path": "{{ path }}"}, {"type": "files", "path": 5}),
        ("source", "{{ path }}", "in/folder"),
        ("branch", "{{ branch }}", "main"),
        ("keys", ["{{ key }}"], ["_file"]),
        ("merge_engine", "{{ engine }}", "newest"),
        ("create", {"target_file_size": "{{ size }}"}, {"target_file_size": "big"}),
    ],
)
def test_what_a_template_has_rendered_is_looked_at_before_spark_starts(
    lake_connection: str, context: Context, name: str, template: Any, wrong: Any
) -> None:
    job = LakeUpsertOperator(task_id="t", **{**RIGHT[LakeUpsertOperator], name: template})
    setattr(job, name, wrong)
    with pytest.raises(InvalidSpecError):
        job.build_spec(context)


def test_options_and_properties_take_numbers_and_booleans(lake_connection: str, context: Context) -> None:
    options = {"header": True, "maxColumns": 5, "samplingRatio": 0.5, "nullValue": "", "sep": "\t"}
    properties = {"write.metadata.delete-after-commit.enabled": False, "commit.retry.num-retries": 7}
    spec = built(
        LakeUpsertOperator,
        {
            **RIGHT[LakeUpsertOperator],
            "source": {"type": "files", "path": "in/*.csv", "options": options},
            "create": {"properties": properties, "target_file_size": "128MB"},
        },
        context,
    )
    plain = to_plain(spec)
    expected = {"header": "true", "maxColumns": "5", "samplingRatio": "0.5", "nullValue": "", "sep": "\t"}
    assert plain["source"]["options"] == expected
    assert plain["create"]["properties"] == {
        "write.metadata.delete-after-commit.enabled": "false",
        "commit.retry.num-retries": "7",
    }
    assert plain["create"]["target_file_size"] == 134_217_728
    keys_from = Files("in/keys.csv", options={"header": True})
    keys = built(LakeDeleteRowsOperator, {**RIGHT[LakeDeleteRowsOperator], "keys_from": keys_from}, context)
    assert to_plain(keys)["keys_from"]["options"] == {"header": "true"}


def test_what_names_whom_to_forget_is_in_no_refusal(lake_connection: str, context: Context) -> None:
    for where in (["id = 4711"], 4711, {"id": 4711}):
        with pytest.raises(InvalidSpecError) as refused:
            built(LakeDeleteRowsOperator, {"table": "shop.orders", "where": where}, context)
        assert "where must be a text" in str(refused.value)
        assert "4711" not in str(refused.value)
