"""Author objects in every place that a DAG can put them; the tasks return the spec in place of starting Spark."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Context, Param, task

from airflow_lake_provider import Files, PartialUpdate, Query, TableLayout
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.operators.upsert import LakeUpsertOperator


class SpecOnly(LakeUpsertOperator):
    """An upsert that ends where Spark would start."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # as the parent has it
        plain: dict[str, Any] = to_plain(self.build_spec(context))
        return plain


with DAG(
    dag_id="author_objects",
    schedule=None,
    params={
        "day": "placed_at",
        "size": "256MB",
        "lake": "lake_default",
        "engine": Param("first-row"),
        "column": "currency",
    },
):

    @task
    def path() -> str:
        return "in/from-xcom.parquet"

    @task
    def columns() -> list[str]:
        return ["days(placed_at)"]

    @task
    def sources() -> list[dict[str, Any]]:
        # What comes through XCom is data: its braces are no template.
        return [
            {"type": "files", "path": "in/{{ params.day }}.parquet", "name": "first"},
            {"type": "debezium", "path": "in/*.json", "table": "public.orders", "name": "second"},
        ]

    found, terms = path(), columns()
    layout = TableLayout(partition_by=["days({{ params.day }})"], target_file_size="{{ params.size }}")
    common: dict[str, Any] = {"table": "shop.orders", "keys": ["id"]}

    SpecOnly(
        task_id="templated",
        table="shop.orders",
        lake_conn_id="{{ params.lake }}",
        keys=["{{ params.day }}_id"],
        order_by=["{{ params.day }}"],
        source=Query(
            "SELECT * FROM source WHERE day = '{{ params.day }}'",
            over=Files("in/{{ params.day }}/*.csv", options={"header": "{{ true }}", "fs.s3a.secret.key": "hidden"}),
        ),
        merge_engine=PartialUpdate({"priced_at": ["price", "{{ params.column }}"]}),
        create=layout,
    )
    SpecOnly(task_id="referring", source=Query("SELECT * FROM source", over=Files(found)), **common)  # type: ignore[arg-type]  # a reference
    SpecOnly(task_id="chosen", source="in/a.parquet", merge_engine={"type": "{{ params.engine }}"}, **common)
    shared = TableLayout(partition_by=["days({{ params.day }})"], properties={"made.by": "{{ ti.map_index }}"})
    SpecOnly.partial(task_id="mapped", create=shared, **common).expand(
        source=[Files("in/{{ params.day }}/a.parquet", name="a"), Files("in/{{ params.day }}/b.parquet", name="b")]
    )
    SpecOnly.partial(task_id="mapped_over_xcom", **common).expand(source=sources())
    SpecOnly.partial(task_id="mapped_referring", create=TableLayout(partition_by=terms), **common).expand(  # type: ignore[arg-type]  # a reference
        source=[Files(found, name="only")]  # type: ignore[arg-type]  # a reference
    )
