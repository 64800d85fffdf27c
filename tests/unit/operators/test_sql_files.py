"""A path that ends in .sql is read as SQL where an argument is SQL, and is a text everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author_object import has_sql_file, is_open, is_sql_file
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The template search path of :func:`rendered`."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/all.sql").write_text("\nSELECT * FROM changes -- {{ day }}\n\n")
    (tmp_path / "drop.sql").write_text("DROP TABLE {{ day }}")
    (tmp_path / "latin.sql").write_bytes(b"caf\xe9 = 1")
    return tmp_path


def rendered(job: LakeJobOperator[Any], folder: Path, context: Context) -> Any:
    """Render as Airflow does before it runs a task."""
    DAG("d", schedule=None, template_searchpath=[str(folder)]).add_task(job)
    job.render_template_fields({**context, "day": "today"})  # type: ignore[typeddict-unknown-key]  # of the test's own
    return job


def incremental(query: str, **arguments: Any) -> LakeIncrementalOperator:
    given: dict[str, Any] = {"source": "shop.orders", "target": "shop.revenue", "consumer": "c", "keys": ["id"]}
    return LakeIncrementalOperator(task_id="t", query=query, **given, **arguments)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("revenue.sql", True),
        ("sql/of-2026/revenue.sql", True),
        ("SELECT * FROM shop.sql", False),
        ("(SELECT 1)AS(x).sql", False),
        ("`shop`.sql", False),
        ("a/b.sql;", False),
        (".sql", False),
        ("revenue.SQL", False),
        (None, False),
    ],
)
def test_a_path_alone_is_a_file_and_sql_that_ends_so_is_not(value: str | None, expected: bool) -> None:
    assert is_sql_file(value) is expected


def test_an_object_with_a_file_is_open_until_it_is_read() -> None:
    query = Query("revenue.sql", over="in/a.csv")
    audits = Audits({"a": "a.sql", "b": "SELECT * FROM batch"})
    assert all((is_open(found), has_sql_file(found)) == (True, True) for found in (query, audits))
    # A path elsewhere is no SQL.
    assert not is_open(Files("dump.sql", format="csv"))
    assert query.with_sql_files(lambda file: f"SELECT '{file}'").sql == "SELECT 'revenue.sql'"
    with pytest.raises(InvalidSpecError, match="one query"):
        query.checked()
    with pytest.raises(InvalidSpecError, match="the path 'in/a' does not tell a format"):
        Query("revenue.sql", over="in/a")


def test_a_file_is_read_from_the_search_path_and_rendered(folder: Path, context: Context) -> None:
    assert rendered(incremental("deep/all.sql"), folder, context).query == "SELECT * FROM changes -- today"


def test_what_a_file_holds_is_checked_again(folder: Path, context: Context, lake_connection: str) -> None:
    source = Query("drop.sql", over="in/a.csv")
    job = LakeUpsertOperator(task_id="t", table="shop.orders", source=source, keys=["id"])
    with pytest.raises(InvalidSpecError, match=r"one query.*'DROP TABLE today'"):
        rendered(job, folder, context).build_spec(context)


@pytest.mark.parametrize("file", ["absent.sql", "latin.sql", "../secret.sql"])
def test_a_file_that_cannot_be_read_is_refused_by_name_and_by_folders(
    folder: Path, context: Context, file: str
) -> None:
    (folder.parent / "secret.sql").write_text("SELECT 1")
    with pytest.raises(AirflowFailException) as refused:
        rendered(incremental(file), folder, context)
    assert f"query: the file {file!r} cannot be read" in str(refused.value)
    assert str(folder) in str(refused.value)


def test_a_text_of_another_argument_and_what_a_template_makes_is_no_file(folder: Path, context: Context) -> None:
    given: dict[str, Any] = {"files": "deep/all.sql", "env_vars": {"FILE": "deep/all.sql"}, "name": "{{ day }}.sql"}
    job = LakeUpdateRowsOperator(
        task_id="t", table="shop.orders", assignments={"a": "1"}, where="{{ 'drop.sql' }}", **given
    )
    rendered(job, folder, context)
    assert (job.files, job.env_vars, job.name) == ("deep/all.sql", {"FILE": "deep/all.sql"}, "today.sql")
    assert job.where == "drop.sql"


def test_files_are_not_read_when_a_dag_is_parsed(folder: Path) -> None:
    dag: Any = DAG("d", schedule=None, template_searchpath=[str(folder)])
    job = incremental("deep/all.sql")
    dag.add_task(job)
    dag.resolve_template_files()
    assert job.query == "deep/all.sql"
    assert tuple(job.template_ext) == (".sql",)
