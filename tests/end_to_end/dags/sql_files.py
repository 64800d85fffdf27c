"""Files of SQL in every argument that takes SQL; the tasks return the spec, or the refusal, in place of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from airflow_lake_provider import Files, Query
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator


class SpecOnly(LakeJobOperator[Any]):
    """Ends an operator where Spark would start."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # as the parent has it
        try:
            plain: dict[str, Any] = to_plain(self.build_spec(context))
        except InvalidSpecError as error:
            return {"refused": str(error)}
        return plain


class Upsert(SpecOnly, LakeUpsertOperator):
    """An upsert."""


class Compaction(SpecOnly, LakeCompactionOperator):
    """A compaction."""


class DeleteRows(SpecOnly, LakeDeleteRowsOperator):
    """A deletion."""


class UpdateRows(SpecOnly, LakeUpdateRowsOperator):
    """An update."""


with DAG(
    dag_id="sql_files",
    schedule=None,
    template_searchpath=[str(Path(__file__).parent / "sql")],
    params={"day": "2026-11-23", "table": "shop.orders", "file": "day.sql"},
):

    @task
    def sources() -> list[dict[str, Any]]:
        # What comes through XCom is data: it names no file.
        return [{"type": "query", "sql": "revenue.sql", "over": "in/a.csv", "name": "a"}]

    common: dict[str, Any] = {"table": "shop.orders", "keys": ["id"]}
    mapping = {"type": "query", "sql": "revenue.sql", "over": {"type": "files", "path": "in/a.csv"}}
    Upsert(
        task_id="objects",
        source=Query("revenue.sql", over=Files("in/{{ params.day }}.csv")),
        audits={"other_days": "other_days.sql", "none": "SELECT * FROM batch"},
        files="day.sql",
        **common,
    )
    Upsert(task_id="mappings", source=mapping, audits={"queries": {"other_days": "other_days.sql"}}, **common)
    Upsert.partial(task_id="mapped", **common).expand(source=[Query("revenue.sql", over="in/a.csv", name="m")])
    Upsert.partial(task_id="from_xcom", **common).expand(source=sources())
    Upsert(task_id="statement", source=Query("statement.sql", over="in/a.csv"), **common)
    Compaction(task_id="compaction", table="shop.orders", where="day.sql")
    UpdateRows(task_id="update", table="shop.orders", assignments={"state": "'closed'"}, where="sql/day.sql")
    UpdateRows(task_id="rendered", table="shop.orders", assignments={"a": "1"}, where="{{ params.file }}")
    DeleteRows(task_id="deletion", table="shop.orders", where="day.sql")
    DeleteRows(task_id="absent", table="shop.orders", where="absent.sql")
