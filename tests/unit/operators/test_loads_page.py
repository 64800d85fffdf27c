"""The matrix of loads in docs/reference/loads.md: each cell is tried here, or names a test of Spark that tries it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from pyiceberg.table import Table

from airflow_lake_provider import (
    Changes,
    Debezium,
    DebeziumTopic,
    Files,
    History,
    JdbcTable,
    KafkaTopic,
    LakeTable,
    PySparkFunction,
    Query,
    RepairedLetters,
)
from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.job import (
    AppendReport,
    JobReport,
    Outcome,
    OverwritePartitionsReport,
    UpsertReport,
)
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.asset_events import announce
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs/reference/loads.md").read_text()
FILES = Files("s3a://in/*.parquet")
OPERATORS: Mapping[str, tuple[Any, type[JobReport]]] = {
    "append": (LakeAppendOperator, AppendReport),
    "overwrite-partitions": (LakeOverwritePartitionsOperator, OverwritePartitionsReport),
    "upsert": (LakeUpsertOperator, UpsertReport),
}
BY_KEY: dict[str, Any] = {"action": "upsert", "keys": ["id"]}
# As a task of an application is given: an action and the arguments of its operator.
LOADS: Mapping[str, dict[str, Any]] = {
    "append": {"action": "append", "source": FILES},
    "upsert": {**BY_KEY, "source": FILES},
    "overwrite partitions": {"action": "overwrite-partitions", "source": FILES},
    "`complete=True`": {**BY_KEY, "source": FILES, "complete": True},
    "`History`": {**BY_KEY, "source": FILES, "order_by": ["at"], "merge_engine": History()},
    "`JdbcTable`": {**BY_KEY, "source": JdbcTable("pg", "public.orders")},
    "`JdbcTable` with `watermark`": {**BY_KEY, "source": JdbcTable("pg", "public.orders", watermark="n")},
    "`KafkaTopic`": {"action": "append", "source": KafkaTopic("kafka", "orders", schema="id BIGINT")},
    "`Changes`": {**BY_KEY, "source": Changes("shop.lines")},
    "`Query`": {**BY_KEY, "source": Query("SELECT 1", over={"f": FILES, "t": LakeTable("shop.lines")})},
    "`PySparkFunction`": {"action": "append", "source": PySparkFunction("loads:orders"), "batch_id": "1"},
    "`RepairedLetters`": {"action": "append", "source": RepairedLetters()},
    "`Debezium`": {**BY_KEY, "source": Debezium("s3a://in/*.json", table="public.orders", schema="id BIGINT")},
    "`DebeziumTopic`": {**BY_KEY, "source": DebeziumTopic("kafka", "shop.public.orders", table="public.orders")},
}
# As the drivers tell of what they have read.
READ_FROM = {
    "`JdbcTable`": "postgres://db:5432/shop.public.orders",
    "`JdbcTable` with `watermark`": "postgres://db:5432/shop.public.orders",
    "`KafkaTopic`": "kafka://broker:9092/orders",
    "`DebeziumTopic`": "kafka://broker:9092/shop.public.orders",
}
YARN = {"yarn_track_via_rm_api": True, "report_location": "/reports"}


@pytest.fixture(autouse=True)
def connections(
    monkeypatch: pytest.MonkeyPatch, lake_connection: str, spark_connection: str, job_directory: Path
) -> None:
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "broker:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_PG", json.dumps({"conn_type": "postgres", "host": "db", "schema": "shop"}))


def task_of(load: str, **arguments: Any) -> dict[str, Any]:
    """Return a load as a task of an application."""
    return {"table": "shop.orders", **LOADS[load], **arguments}


def operator_of(load: str, **arguments: Any) -> Any:
    """Return a load as an operator of its own."""
    given = task_of(load, **arguments)
    operator, _ = OPERATORS[given.pop("action")]
    return operator(task_id="t", **given)


def report_of(load: str, table: Table, committed: int) -> JobReport:
    """Return the report of a commit."""
    _, cls = OPERATORS[LOADS[load]["action"]]
    done: dict[str, Any] = {"outcome": Outcome.APPLIED, "reason": "", "run_key": "0123456789abcdef"}
    done["source_location"] = READ_FROM.get(load)
    return cls(table="shop.orders", before=TableState(), committed=(str(committed),), **done)


def is_taken(load: str, context: Context, **arguments: Any) -> None:
    """Build the spec that goes to the driver."""
    spec = operator_of(load, **arguments).build_spec(context)
    assert all(getattr(spec, name) for name in arguments)


def is_repeated(load: str, context: Context, **_: Any) -> None:
    """Say both what a cleared task may do."""
    for how in ("skip", "apply"):
        is_taken(load, context, on_repeat=how)


def has_dry_run(load: str, context: Context, **_: Any) -> None:
    """Ask for a dry run, as maintenance takes it."""
    written_task(task_of(load, dry_run=True), "tasks[0]")


def is_announced(load: str, context: Context, orders: Table, append: Callable[..., int]) -> None:
    """Compare the event of a commit with the table."""
    asset = lake_table_asset("shop.orders")
    done = report_of(load, orders, append(orders, 1, 2))
    announce(operator_of(load, outlets=[asset]), {("shop.orders", "main"): [done]}, context)
    extra: Any = context["outlet_events"][asset].extra
    assert (extra["snapshot_id"], extra["counts"]["added-records"]) == (done.committed[0], 2)


def is_lineage(load: str, context: Context, orders: Table, append: Callable[..., int]) -> None:
    """Ask as OpenLineage's provider does."""
    job = operator_of(load)
    (task,) = job._tasks = job.table_tasks(context)
    task.report = report_of(load, orders, append(orders, 1))
    extractor = DefaultExtractor(operator=job)
    extractor._get_openlineage_facets = lambda method, *given: method(*given)  # type: ignore[method-assign]
    told: Any = extractor.extract_on_complete(None)
    (written,) = told.outputs
    assert written.facets["version"].datasetVersion == task.report.committed[0]
    inputs = {"`Query`": 2, "`PySparkFunction`": 0}.get(load, 1)
    assert len(told.inputs) == inputs, told.inputs


def is_deferred(load: str, context: Context, **_: Any) -> None:
    """Ask for the triggerer."""
    assert operator_of(load, deferrable=True, **YARN).may_defer(SparkTarget(master="yarn", cluster_mode=True))


def is_in_an_application(load: str, context: Context, **_: Any) -> None:
    """Let two of them be tasks of one application."""
    tasks = [task_of(load, table=f"shop.{name}") for name in ("orders", "items")]
    application = LakeApplicationOperator(task_id="t", tasks=tasks)
    assert [task.error for task in application.table_tasks(context)] == [None, None]


def seen_by_spark(load: str, context: Context, **_: Any) -> None:
    """What readers see is told by the tests that the page names."""


TRIED: Mapping[str, Callable[..., None]] = {
    "audits": lambda load, context, **_: is_taken(load, context, audits={"none": "SELECT * FROM audited"}),
    "branch": lambda load, context, **_: is_taken(load, context, branch="candidate"),
    "`dry_run`": has_dry_run,
    "`on_repeat`": is_repeated,
    "asset events": is_announced,
    "OpenLineage": is_lineage,
    "deferral": is_deferred,
    "readers of changes": seen_by_spark,
    "many tasks": is_in_an_application,
}


def rows_of(section: str) -> Iterator[list[str]]:
    """Give the rows of a section's table, the heads first."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


HEADS, *MATRIX = rows_of("The matrix")
REFUSALS = {(load, what): words.strip("`") for load, what, words in list(rows_of("Refusals"))[1:]}
CELLS = [(row[0], head, cell) for row in MATRIX for head, cell in zip(HEADS[1:], row[1:], strict=True)]


def test_the_matrix_has_every_load_and_what_may_go_with_it() -> None:
    assert [row[0] for row in MATRIX] == list(LOADS)
    assert HEADS[1:] == list(TRIED)


@pytest.mark.parametrize(("load", "what", "cell"), CELLS, ids=lambda value: value)
def test_a_cell_of_the_matrix_is_true(
    load: str, what: str, cell: str, context: Context, orders: Table, append: Callable[..., int]
) -> None:
    if cell != "refused":
        TRIED[what](load, context, orders=orders, append=append)
        return
    words = REFUSALS.get((load, what)) or REFUSALS["every load", what]
    with pytest.raises(InvalidSpecError, match=re.escape(words)):
        TRIED[what](load, context, orders=orders, append=append)


def test_the_tests_that_the_page_names_are_there() -> None:
    named = list(rows_of("Tests"))[1:]
    assert {what for what, _, _ in named} == set(TRIED)
    for _, file, test in named:
        assert f"def {test.strip('`')}(" in (REPOSITORY / file.strip("`")).read_text(), (file, test)
    assert all(cell in ("yes", "refused") for _, what, cell in CELLS if what != "readers of changes")
