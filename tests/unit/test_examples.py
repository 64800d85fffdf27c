"""Python and policies of README and the documentation: they run, and are read, as they stand there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import DAG

from airflow_lake_provider.hooks.policy_file import parse_policy_file
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from scripts.markdown_pages import REPOSITORY, documents

# Not what is included of a file: a part of one has its imports at the file's head, and tests of DAGs run it.
BLOCK = re.compile(r"^(?<! -->\n)```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICY = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICIES = [
    pytest.param(policy[1], id=f"{page.relative_to(REPOSITORY)}:{text.count(chr(10), 0, policy.start()) + 1}")
    for page in documents()
    for text in [page.read_text()]
    for policy in POLICY.finditer(text)
]
PAGES = [page for page in documents() if BLOCK.search(page.read_text())]


def context_of_readers() -> dict[str, Any]:
    """Return what a reader has already where a page shows one line of it."""
    orders = LakeUpsertOperator(task_id="read_orders", table="shop.orders", source="/in/*.parquet", keys=["id"])
    return {"report": mock.MagicMock(), "orders": orders, "spark": None}


def run_blocks(text: str, path: str) -> None:
    """Run the blocks of a page one after the other, each with the names of those before it.

    :param path: for tracebacks.
    """
    names: dict[str, Any] = {}
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        # Two blocks may show one task, each in its own way.
        with DAG("page", schedule=None):
            names.update(context_of_readers())
            # Lines of a traceback are those of the page.
            exec(compile("\n" * line + block[1], path, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_examples_of_a_page_run_as_they_stand(page: Path) -> None:
    with mock.patch("airflow_lake_provider.spark_jobs.read_changes.read_changes"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_blocks(page.read_text(), str(page))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("from airflow_lake_provider import Kafka", id="a class that is not there"),
        pytest.param("LakeUpsertOperator(task_id='t', table='a.b', source='x.csv', keys=['k'], key='k')", id="a name"),
        pytest.param("LakeUpsertOperator(task_id='t', table='a.b', source='x', keys=['k'])", id="a value"),
    ],
)
def test_an_example_that_is_wrong_fails(code: str) -> None:
    head = "from airflow_lake_provider.operators.upsert import LakeUpsertOperator\n"
    with pytest.raises(Exception, match=r"Kafka|key|format"):
        run_blocks(f"# Title\n\n```python\n{head}{code}\n```\n", "page.md")


@pytest.mark.parametrize("policy", POLICIES)
def test_each_yaml_example_is_a_policy_file_that_names_a_setting(policy: str) -> None:
    assert any(entry.named for entry in parse_policy_file(policy, "lake_policy.yaml").entries)
