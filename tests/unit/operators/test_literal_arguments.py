"""Texts and members of enumerations that an author writes without a template stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_lake_provider import Files, PartialUpdate, SchemaContract
from airflow_lake_provider.contracts.author.lake_tables import ChangeMode
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.schema_contract import Evolution
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

UPSERT = {"table": "shop.orders", "keys": ["id"]}
NATIVE = pytest.mark.parametrize("native", [False, True])

pytestmark = pytest.mark.usefixtures("lake_connection", "spark_connection")


def rendered(operator: Any, arguments: dict[str, Any], context: Context, *, native: bool = False) -> Any:
    """Return a task as it is behind Airflow's rendering, with params of which one is left empty."""
    with DAG("orders", schedule=None, render_template_as_native_obj=native):
        task = operator(task_id="t", **arguments)
    values: Any = {**context, "params": {"x": None, "sep": ";", "day": "2026-11-30"}}
    task.render_template_fields(values)
    return task


def spec_of(
    operator: type[LakeJobOperator[Any]], arguments: dict[str, Any], context: Context, *, native: bool = False
) -> Any:
    return rendered(operator, arguments, context, native=native).build_spec(context)


OPTIONS = {"lineSep": "\n", "nullValue": "", "emptyValue": "''", "quote": '"', "sep": "\t", "maxColumns": "5"}


@NATIVE
@pytest.mark.parametrize("path", ["in/a.csv", "in/{{ params.day }}.csv"])
def test_options_of_a_mapping_are_those_of_the_class(context: Context, path: str, native: bool) -> None:
    mapping = {"type": "files", "path": path, "options": OPTIONS}
    for given in (mapping, Files(path, options=OPTIONS)):
        spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": given}, context, native=native)
        assert spec.source.options == OPTIONS
        assert spec.source.path == path.replace("{{ params.day }}", "2026-11-30")


@NATIVE
def test_a_template_beside_other_options_leaves_them_alone(context: Context, native: bool) -> None:
    options = {**OPTIONS, "sep": "{{ params.sep }}"}
    for given in (Files("a.csv", options=options), {"type": "files", "path": "a.csv", "options": options}):
        spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": given}, context, native=native)
        assert spec.source.options == {**OPTIONS, "sep": ";"}


@NATIVE
def test_a_template_beside_other_names_leaves_them_alone(context: Context, native: bool) -> None:
    contract = {"exclude_columns": ["1", "{{ params.day }}", "a\n"]}
    engine = PartialUpdate({"2": ["3", "{{ params.sep }}"]})
    arguments = {**UPSERT, "source": "a.csv", "schema_contract": contract, "merge_engine": engine}
    spec = spec_of(LakeUpsertOperator, arguments, context, native=native)
    assert spec.schema_contract == SchemaContract(exclude_columns=("1", "2026-11-30", "a\n"))
    assert spec.merge_engine == PartialUpdate({"2": ["3", ";"]})


@NATIVE
def test_properties_and_keys_of_a_deletion_are_as_written(context: Context, native: bool) -> None:
    create = {"properties": {"comment": "", "five": "5", "note": "a\n"}}
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": "a.csv", "create": create}, context, native=native)
    assert spec.create.properties == {"comment": "", "five": "5", "note": "a\n"}
    keys_from = {"type": "files", "path": "a.csv", "options": {"lineSep": "\n"}}
    spec = spec_of(LakeDeleteRowsOperator, {**UPSERT, "keys_from": keys_from}, context, native=native)
    assert spec.keys_from.options == {"lineSep": "\n"}


@NATIVE
def test_a_member_of_an_enumeration_is_its_value(context: Context, native: bool) -> None:
    compaction = {"table": "shop.orders", "level": CompactionLevel.FULL, "strategy": CompactionStrategy.SORT}
    spec = spec_of(LakeCompactionOperator, compaction, context, native=native)
    assert (spec.level, spec.strategy) == (CompactionLevel.FULL, CompactionStrategy.SORT)
    changes = {"type": "changes", "table": "shop.raw", "mode": ChangeMode.UPSERTS}
    upsert = {
        **UPSERT,
        "source": changes,
        "on_repeat": OnRepeat.APPLY,
        "schema_contract": Evolution.FREEZE,
        "merge_engine": {"type": "deduplicate", "deletes": Deletes.SOFT},
    }
    spec = spec_of(LakeUpsertOperator, upsert, context, native=native)
    assert (spec.on_repeat, spec.merge_engine.deletes) == (OnRepeat.APPLY, Deletes.SOFT)
    assert (spec.source.mode, spec.schema_contract.new_columns) == (ChangeMode.UPSERTS, Evolution.FREEZE)
    source = Files("{{ params.day }}.csv", on_source_change=OnSourceChange.FAIL)
    spec = spec_of(LakeAppendOperator, {"table": "shop.orders", "source": source}, context, native=native)
    assert spec.source.on_source_change is OnSourceChange.FAIL


@NATIVE
def test_a_policy_takes_a_member_of_an_enumeration(context: Context, native: bool) -> None:
    arguments = {"policy": {"compaction": {"level": CompactionLevel.FULL}}}
    plan = rendered(LakeMaintenancePlanOperator, arguments, context, native=native)
    assert plan.policy == {"compaction": {"level": "full"}}
