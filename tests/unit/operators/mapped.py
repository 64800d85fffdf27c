"""An instance of a mapped task as a worker makes it, of values that another task has left in XCom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from airflow_lake_provider.operators.spark_application import SparkApplicationOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

# A template, and what becomes of it where it is one.
TEMPLATE, RENDERED = "{{ params.given }}", "rendered"


@task
def another() -> None:
    """Leave a value in XCom; which one, the test says."""


def expanded(begun: Any, xcom: Any, name: str) -> Any:
    """Map a task over the values of an argument."""
    return begun.expand(**{name: xcom})


def expanded_by_kwargs(begun: Any, xcom: Any, name: str) -> Any:
    """Map a task over mappings, each of which has the argument."""
    return begun.expand_kwargs(xcom.map(lambda value: {name: value}))


def instance(
    operator: type[SparkApplicationOperator],
    name: str,
    value: Any,
    shared: Mapping[str, Any],
    *,
    expand: Callable[[Any, Any, str], Any] = expanded,
    folder: Path | None = None,
) -> tuple[Any, Context]:
    """Return the only instance of a task that is mapped over an argument from XCom, rendered, and its context."""
    searched: dict[str, Any] = {} if folder is None else {"template_searchpath": [str(folder)]}
    with DAG("mapped", schedule=None, params={"given": RENDERED}, **searched) as dag:
        mapped = expand(operator.partial(task_id="t", **shared), another(), name)
    return rendered(mapped, dag, value)


def rendered(mapped: Any, dag: DAG, *values: Any) -> tuple[Any, Context]:
    """Return the first instance of a mapped task, rendered, and its context.

    :param values: that another task has left in XCom.
    """
    ti = SimpleNamespace(dag_id=dag.dag_id, task_id="t", map_index=0, xcom_pull=lambda **_: list(values))
    context: Any = {"ti": ti, "dag": dag, "dag_run": SimpleNamespace(conf={})}
    mapped.render_template_fields(context)
    return context["task"], context
