"""Statements of Spark SQL that pages give do what the page says, on a table of the reader's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.errors import AuditFailedError
from tests.spark.upsert_flow import Flow, row

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
DAY = 24 * 60 * 60 * 1000


def statements(page: str, word: str, **reader: str) -> Iterator[str]:
    """Yield the statements of the block that has a word, with names of the reader's in place of the page's.

    :param reader: the names, by patterns.
    """
    blocks = re.findall(r"^```sql\n(.*?)^```$", (HOW_TO / page).read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if word in each)
    for of_page, of_reader in reader.items():
        block = re.sub(of_page, of_reader, block)
    yield from (each.strip() for each in block.split(";") if each.strip())


def test_the_branch_of_a_failed_audit_keeps_its_batch_when_it_is_kept_for_longer(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b", -2))
    with pytest.raises(AuditFailedError):
        flow.apply("run 2", audits=Audits({"none below 0": "SELECT * FROM batch WHERE n < 0"}))
    (branch,) = flow.loaded().metadata.refs.keys() - {"main"}
    head = str(flow.loaded().metadata.refs[branch].snapshot_id)
    names = {r"shop\.orders": flow.table, "lake_audit_[0-9a-f]{16}": branch, r"\b[0-9]{19}\b": head}
    *looks, keep, drop = statements("write-audit-publish.md", "REPLACE BRANCH", **names)
    shown = [str(each[0]) for look in looks for each in flow.spark.sql(look).collect()]
    flow.spark.sql(keep)
    assert flow.rows(branch) == {1: ("a", 1), 2: ("b", -2)}
    assert flow.loaded().metadata.refs[branch].max_ref_age_ms == 30 * DAY
    assert shown == [head]
    flow.spark.sql(drop)
    assert set(flow.loaded().metadata.refs) == {"main"}


def test_a_table_tells_its_changes_after_the_statements_of_the_page(spark: SparkSession, flow: Flow) -> None:
    flow.catalog()
    spark.sql(f"CREATE TABLE {flow.table} (id INT NOT NULL, n INT) USING iceberg")
    for statement in statements("incremental.md", "IDENTIFIER", **{r"shop\.orders": flow.table}):
        spark.sql(statement)
    facts = flow.on_worker().facts
    assert (facts.format_version, list(facts.shape.identifiers)) == (3, ["id"])
    # As the page says of other columns.
    with pytest.raises(Exception, match="not a required field"):
        spark.sql(f"ALTER TABLE {flow.table} SET IDENTIFIER FIELDS n")
    with pytest.raises(Exception, match="Cannot change nullable column to non-nullable"):
        spark.sql(f"ALTER TABLE {flow.table} ALTER COLUMN n SET NOT NULL")
