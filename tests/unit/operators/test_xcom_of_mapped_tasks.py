"""A mapped task takes XCom as it is: no template and no name of a file, whatever the argument and the way to map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_lake_provider import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.dead_letter_replay import LakeDeadLetterReplayOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceOperator
from airflow_lake_provider.operators.orphan_files import LakeRemoveOrphanFilesOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rewrite_manifests import LakeRewriteManifestsOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.statistics import LakeStatisticsOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.mapped import RENDERED, TEMPLATE, expanded, expanded_by_kwargs, instance, rendered

TABLE = {"table": "shop.orders"}
UPSERT = {**TABLE, "source": "in/*.parquet", "keys": ["id"]}
# What each operator needs.
OPERATORS: dict[type[LakeJobOperator[Any]], dict[str, Any]] = {
    LakeUpsertOperator: UPSERT,
    LakeAppendOperator: {**TABLE, "source": "in/*.parquet"},
    LakeOverwritePartitionsOperator: {**TABLE, "source": "in/*.parquet"},
    LakeIncrementalOperator: {
        "source": "shop.orders",
        "target": "shop.revenue",
        "consumer": "c",
        "keys": ["id"],
        "query": "SELECT * FROM changes",
    },
    LakeDeleteRowsOperator: {**TABLE, "keys_from": "in/*.parquet", "keys": ["id"]},
    LakeUpdateRowsOperator: {**TABLE, "where": "id = 1", "assignments": {"n": "1"}},
    LakeRowExpiryOperator: {**TABLE, "column": "placed_at", "keep": "P30D"},
    LakeCompactionOperator: TABLE,
    LakeRewriteManifestsOperator: TABLE,
    LakeStatisticsOperator: TABLE,
    LakeSnapshotExpiryOperator: TABLE,
    LakeRemoveOrphanFilesOperator: TABLE,
    LakeRollbackOperator: {**TABLE, "tag": "closed"},
    LakePublishBranchOperator: {**TABLE, "branch": "stage"},
    LakeCreateTagOperator: {**TABLE, "tag": "closed"},
    LakeDropTagOperator: {**TABLE, "tag": "closed"},
    LakeTableUpgradeOperator: TABLE,
}
# What an author does not give beside an argument.
RIVALS: dict[tuple[type[LakeJobOperator[Any]], str], tuple[str, ...]] = {
    (LakeDeleteRowsOperator, "where"): ("keys_from", "keys"),
    (LakeRollbackOperator, "snapshot_id"): ("tag",),
    (LakeRollbackOperator, "timestamp"): ("tag",),
}
ARGUMENTS = [
    pytest.param(operator, given, argument.author_name, argument.name, id=f"{operator.__name__}-{argument.author_name}")
    for operator, given in OPERATORS.items()
    for argument in operator.arguments.values()
    if argument.is_templated
]
MAPPED = pytest.mark.parametrize("expand", [expanded, expanded_by_kwargs])
Expand = Callable[[Any, Any, str], Any]


def without(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


@MAPPED
@pytest.mark.parametrize(("operator", "given", "name", "field"), ARGUMENTS)
def test_an_argument_from_xcom_stays_as_it_is(
    operator: type[LakeJobOperator[Any]], given: dict[str, Any], name: str, field: str, expand: Expand
) -> None:
    shared = without(given, name, *RIVALS.get((operator, name), ()))
    job, context = instance(operator, name, TEMPLATE, shared, expand=expand)
    assert getattr(job._rendered(context), field) == TEMPLATE
    assert RENDERED not in job.name


@MAPPED
@pytest.mark.parametrize("name", LakeJobOperator.template_fields)
def test_an_argument_for_spark_from_xcom_stays_as_it_is(name: str, expand: Expand) -> None:
    value: Any = {"spark.x": TEMPLATE} if name in ("conf", "env_vars") else TEMPLATE
    job, _ = instance(LakeCompactionOperator, name, value, without(TABLE, name), expand=expand)
    assert getattr(job, name) == value


def test_what_the_author_writes_is_rendered_in_a_mapped_task_too() -> None:
    shared = {"table": f"shop.{TEMPLATE}", "where": f"n = '{TEMPLATE}'", "name": f"of {TEMPLATE}"}
    job, context = instance(LakeDeleteRowsOperator, "lake_conn_id", "lake", shared)
    spec = job._rendered(context)
    assert (spec.table, spec.where, job.name) == (f"shop.{RENDERED}", f"n = '{RENDERED}'", f"of {RENDERED}")
    with DAG("literal", schedule=None, params={"given": RENDERED}) as dag:
        mapped = LakeDeleteRowsOperator.partial(task_id="t", table=f"shop.{TEMPLATE}").expand(
            where=[f"n = '{TEMPLATE}'"]
        )
    job, context = rendered(mapped, dag)
    assert job._rendered(context).where == f"n = '{RENDERED}'"
    assert job.name == f"LakeDeleteRowsOperator shop.{RENDERED}"


@MAPPED
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", {"type": "files", "path": f"in/{TEMPLATE}.parquet", "name": "n"}),
        ("create", {"properties": {"owner": TEMPLATE}}),
        ("audits", {"none": f"SELECT '{TEMPLATE}'"}),
    ],
)
def test_a_mapping_from_xcom_that_stands_for_an_object_is_no_template_inside(
    name: str, value: dict[str, Any], expand: Expand
) -> None:
    job, context = instance(LakeUpsertOperator, name, value, without(UPSERT, name), expand=expand)
    shown = repr(getattr(job._rendered(context), name))
    assert TEMPLATE in shown
    assert f"{RENDERED}." not in shown


def test_an_object_that_is_made_of_xcom_is_no_template_inside() -> None:
    def expand_by_map(begun: Any, xcom: Any, name: str) -> Any:
        return begun.expand(**{name: xcom.map(lambda path: Files(path, name="n"))})

    path, shared = f"in/{TEMPLATE}.parquet", without(UPSERT, "source")
    job, _ = instance(LakeUpsertOperator, "source", path, shared, expand=expand_by_map)
    assert job.source.path == path


TASK = {"action": "upsert", **UPSERT, "source": f"in/{TEMPLATE}.parquet"}


@MAPPED
@pytest.mark.parametrize("operator", [LakeApplicationOperator, LakeMaintenanceOperator])
def test_tasks_from_xcom_are_no_templates(operator: type[LakeApplicationOperator], expand: Expand) -> None:
    deletion = {"action": "delete-rows", **TABLE, "where": f"n = '{TEMPLATE}'"}
    job, _ = instance(operator, "tasks", [TASK, deletion], {}, expand=expand)
    assert [task.to_mapping() for task in job.tasks] == [TASK, deletion]


def test_tasks_that_an_author_maps_are_templates() -> None:
    with DAG("literal", schedule=None, params={"given": RENDERED}) as dag:
        mapped = LakeApplicationOperator.partial(task_id="t").expand(tasks=[[TASK]])
    job, _ = rendered(mapped, dag)
    assert [task.to_mapping() for task in job.tasks] == [{**TASK, "source": f"in/{RENDERED}.parquet"}]


@MAPPED
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", f"shop.{TEMPLATE}"),
        ("letters", f"ops.{TEMPLATE}"),
        ("source_name", TEMPLATE),
        ("keys", [TEMPLATE]),
        ("load", {"create": {"properties": {"owner": TEMPLATE}}}),
        ("load", {"branch": TEMPLATE}),
        ("load", {"deduplicate_by": [TEMPLATE]}),
    ],
)
def test_an_argument_of_a_replay_from_xcom_stays_as_it_is(name: str, value: Any, expand: Expand) -> None:
    shared = without({"target": "shop.events"}, name)
    job, _ = instance(LakeDeadLetterReplayOperator, name, value, shared, expand=expand)
    assert TEMPLATE in repr(job.tasks)
    assert RENDERED not in repr(job.tasks)


def test_the_other_arguments_of_a_mapped_replay_are_templates() -> None:
    shared = {"target": f"shop.{TEMPLATE}", "letters": f"ops.{TEMPLATE}", "source_name": f"n.{TEMPLATE}"}
    job, _ = instance(LakeDeadLetterReplayOperator, "load", {"branch": TEMPLATE}, shared)
    (spec,) = job.tasks
    assert (spec.table, spec.source.table, spec.source.name, spec.branch) == (
        f"shop.{RENDERED}",
        f"ops.{RENDERED}",
        f"n.{RENDERED}",
        TEMPLATE,
    )


@MAPPED
@pytest.mark.parametrize(
    ("operator", "name", "value"),
    [
        (LakeDeleteRowsOperator, "where", "secret.sql"),
        (LakeApplicationOperator, "tasks", [{"action": "delete-rows", **TABLE, "where": "secret.sql"}]),
        (LakeDeadLetterReplayOperator, "load", {"audits": {"none": "secret.sql"}}),
    ],
)
def test_what_comes_from_xcom_names_no_file(
    operator: Any, name: str, value: Any, expand: Expand, tmp_path: Path
) -> None:
    (tmp_path / "secret.sql").write_text("n = 'of the file'")
    shared = {LakeDeleteRowsOperator: TABLE, LakeDeadLetterReplayOperator: {"target": "a.b"}}.get(operator, {})
    job, context = instance(operator, name, value, shared, expand=expand, folder=tmp_path)
    taken = job._rendered(context) if isinstance(job, LakeDeleteRowsOperator) else job.tasks
    assert "of the file" not in repr(taken)
    assert "secret.sql" in repr(taken)


def test_what_jinja_cannot_read_is_refused_by_its_argument_alone() -> None:
    job, context = instance(LakeDeleteRowsOperator, "table", "shop.{% raw", {"where": "id = 1"})
    with pytest.raises(InvalidSpecError, match=r"'shop\.\{% raw'"):
        job._rendered(context).checked()


def test_xcom_inside_a_mapping_that_an_author_maps_is_taken() -> None:
    def expand_literal(begun: Any, xcom: Any, name: str) -> Any:
        return begun.expand_kwargs([{name: xcom}])

    job, _ = instance(LakeUpsertOperator, "source", TEMPLATE, without(UPSERT, "source"), expand=expand_literal)
    assert job.source == [TEMPLATE]
