"""The author's function or SQL turns changes of a source into checked changes of a target."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from typing import Any

import pyspark
import pytest
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.transform_changes import apply_transform

DOUBLE = """
from pyspark.sql import functions as F

def double(changes):
    return changes.withColumn("total", F.col("total") * 2)
"""
RECOMPUTE = """
def per_day(changes, source):
    days = changes.select("day").distinct()
    return source.join(days, "day").groupBy("day").sum("total").withColumnRenamed("sum(total)", "total")
"""
# A function that runs in the executors, in workers that have to import the shipped module.
IN_WORKERS = """
from pyspark.sql import functions as F

def shout(text):
    return text.upper()

def shouted(changes):
    return changes.withColumn("day", F.udf(shout)("day"))
"""


def spec(keys: tuple[str, ...] = ("id",), **how: Any) -> IncrementalSpec:
    return IncrementalSpec(
        catalog="lake_default",
        table="mart.target",
        run=RunIdentity.of("test"),
        source="shop.orders",
        consumer="mart",
        keys=keys,
        to_snapshot="1",
        **how,
    )


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    rows = [(1, "mon", 10, "upsert"), (2, "tue", 20, "upsert"), (3, "mon", 30, "delete")]
    return spark.createDataFrame(rows, "id BIGINT, day STRING, total BIGINT, _change_type STRING")


@pytest.fixture
def source(spark: SparkSession) -> DataFrame:
    rows = [(1, "mon", 10), (2, "tue", 20), (4, "tue", 1), (5, "wed", 7)]
    return spark.createDataFrame(rows, "id BIGINT, day STRING, total BIGINT")


def transformed(
    spark: SparkSession, spec: IncrementalSpec, changes: DataFrame, source: DataFrame
) -> list[tuple[Any, ...]]:
    result = apply_transform(spark, spec, changes, source)
    rows = sorted(tuple(row) for row in result.collect())
    result.unpersist()
    return rows


def test_shipped_code_transforms_upserts_and_passes_deletes(
    spark: SparkSession, changes: DataFrame, source: DataFrame
) -> None:
    shipped = spec(transform="dags.revenue:double", transform_code=DOUBLE)
    assert transformed(spark, shipped, changes, source) == [
        (1, "mon", 20, False),
        (2, "tue", 40, False),
        (3, "mon", 60, True),
    ]


def test_a_function_of_two_arguments_gets_the_source_and_without_a_change_type_all_are_upserts(
    spark: SparkSession, changes: DataFrame, source: DataFrame
) -> None:
    shipped = spec(("day",), transform="revenue:per_day", transform_code=RECOMPUTE)
    assert transformed(spark, shipped, changes, source) == [("mon", 10, False), ("tue", 21, False)]


def test_changes_stay_cached_under_a_query(spark: SparkSession, changes: DataFrame, source: DataFrame) -> None:
    changes.persist()
    assert len(transformed(spark, spec(query="SELECT id, _change_type FROM changes"), changes, source)) == 3
    assert changes.storageLevel.useMemory
    changes.unpersist()


def test_shipped_code_reaches_the_executors(spark: SparkSession, changes: DataFrame, source: DataFrame) -> None:
    shipped = spec(transform="words:shouted", transform_code=IN_WORKERS)
    assert [row[1] for row in transformed(spark, shipped, changes, source)] == ["MON", "TUE", "MON"]


def test_shipped_code_is_in_a_folder_that_ends_with_the_application(
    spark: SparkSession, changes: DataFrame, source: DataFrame, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shipped = spec(transform="temporary:double", transform_code=DOUBLE.replace("* 2", "* 5"))
    assert [row[2] for row in transformed(spark, shipped, changes, source)] == [50, 100, 150]
    assert list(tmp_path.iterdir()) == []
    module = sys.modules[next(name for name in sys.modules if name.startswith("lake_transform_temporary_"))]
    assert str(module.__file__).startswith(SparkFiles.getRootDirectory())


def test_two_versions_of_a_module_in_one_session_are_kept_apart(
    spark: SparkSession, changes: DataFrame, source: DataFrame
) -> None:
    first = spec(transform="revenue:double", transform_code=DOUBLE)
    second = replace(first, transform_code=DOUBLE.replace("* 2", "* 3"))
    assert [row[2] for row in transformed(spark, first, changes, source)] == [20, 40, 60]
    assert [row[2] for row in transformed(spark, second, changes, source)] == [30, 60, 90]


def test_a_module_of_the_cluster_is_imported(
    spark: SparkSession, changes: DataFrame, source: DataFrame, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "revenue_of_the_cluster.py").write_text(DOUBLE)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(transformed(spark, spec(transform="revenue_of_the_cluster:double"), changes, source)) == 3


def test_a_query_reads_both_views_and_leaves_no_view_behind(
    spark: SparkSession, changes: DataFrame, source: DataFrame
) -> None:
    query = (
        "SELECT s.id, s.total + 1 AS total FROM source s JOIN changes c ON s.id = c.id WHERE c._change_type = 'upsert'"
    )
    assert transformed(spark, spec(query=query), changes, source) == [(1, 11, False), (2, 21, False)]
    assert [name for name in ("changes", "source") if spark.catalog.dropTempView(name)] == []


def test_a_transform_may_spell_keys_and_the_change_type_in_any_case_as_spark_does(
    spark: SparkSession, changes: DataFrame, source: DataFrame
) -> None:
    in_capitals = spec(query="SELECT ID, TOTAL, _CHANGE_TYPE FROM changes")
    assert transformed(spark, in_capitals, changes, source) == [(1, 10, False), (2, 20, False), (3, 30, True)]
    assert apply_transform(spark, in_capitals, changes, source).columns == ["id", "TOTAL", "_lake_deleted"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 AS id, 2 AS n FROM changes", "1 keys \\(id\\) occur more than once"),
        ("SELECT nullif(id, 2) AS id FROM changes", "1 rows of the transform have NULL"),
        ("SELECT day FROM changes", r"lacks key columns \['id'\] .* \['day'\]"),
        ("SELECT id, 'update' AS _change_type FROM changes", "3 rows .* neither 'upsert' nor 'delete'"),
        ("SELECT id, CAST(NULL AS STRING) AS _change_type FROM changes", "3 rows .* neither"),
        ("SELECT id, true AS _lake_deleted FROM changes", "_lake_deleted.* keeps for itself"),
        ("SELECT id, 1 AS n, 2 AS N FROM changes", "columns twice.*n"),
    ],
    ids=["twice", "null-key", "no-key", "unknown-type", "null-type", "reserved", "column-twice"],
)
def test_what_cannot_be_applied_is_refused_with_counts(
    spark: SparkSession, changes: DataFrame, source: DataFrame, query: str, said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        apply_transform(spark, spec(query=query), changes, source)


@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 has no collations")
def test_keys_with_a_collation_are_refused_as_such(spark: SparkSession, changes: DataFrame, source: DataFrame) -> None:
    query = "SELECT id COLLATE UTF8_LCASE AS id FROM VALUES ('a'), ('A') AS t(id)"
    with pytest.raises(BadInputError, match=r"'id': 'string collate UTF8_LCASE'.*are compared by a collation"):
        apply_transform(spark, spec(query=query), changes, source)


@pytest.mark.parametrize(
    ("transform", "code", "said"),
    [
        ("no_such_module:f", None, "put its module beside the DAG"),
        ("m:absent", "x = 1", "no function 'absent'"),
        ("m:f", "def f(): ...", "must take \\(changes\\) or \\(changes, source\\)"),
        ("m:f", "def f(a, b, c): ...", "must take"),
        ("m:f", "def f(changes): return changes.count()", "must return a DataFrame of Spark, got int"),
    ],
)
def test_a_transform_that_cannot_be_called_is_refused(
    spark: SparkSession, changes: DataFrame, source: DataFrame, transform: str, code: str | None, said: str
) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        apply_transform(spark, spec(transform=transform, transform_code=code), changes, source)


def test_the_digest_changes_with_the_code_and_with_nothing_else() -> None:
    shipped = spec(transform="m:f", transform_code=DOUBLE)
    assert shipped.transform_digest == replace(shipped, to_snapshot="2", on_gap="full").transform_digest
    others = [replace(shipped, transform_code=RECOMPUTE), replace(shipped, transform="m:g"), spec(query="SELECT 1")]
    assert len({each.transform_digest for each in (shipped, *others)}) == 4
