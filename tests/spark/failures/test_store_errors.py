"""A store that does not answer while metadata is read or written: that is no broken metadata, and a retry may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError
from airflow_lake_provider.spark_jobs.failures import lake_errors
from tests.soak.faulty_session import FaultySession
from tests.soak.lake import CATALOG, NAMESPACE, Lake

TABLE = f"{NAMESPACE}.kept"


def load(session: FaultySession) -> Any:
    jvm: Any = session.spark._jvm
    # Another handle each time: it has read nothing but the metadata yet.
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session.spark._jsparkSession, f"{CATALOG}.{TABLE}")
    java.refresh()
    return java


def read_metadata(jvm: Any, table: Any) -> None:
    jvm.org.apache.iceberg.TableMetadataParser.read(table.io(), table.operations().current().metadataFileLocation())


def read_manifest_list(_: Any, table: Any) -> None:
    table.currentSnapshot().allManifests(table.io())


def read_manifest(jvm: Any, table: Any) -> None:
    manifest = table.currentSnapshot().allManifests(table.io()).get(0)
    jvm.lake.faults.Faults.arm("open", 1, 1, "")
    jvm.org.apache.iceberg.ManifestFiles.read(manifest, table.io()).iterator().hasNext()


def write_metadata(jvm: Any, table: Any) -> None:
    file = table.io().newOutputFile(f"{table.location()}/metadata/other.metadata.json")
    jvm.org.apache.iceberg.TableMetadataParser.overwrite(table.operations().current(), file)


def append(_: Any, table: Any) -> None:
    table.newAppend().set("some", "text").commit()


CALLS: list[tuple[Callable[[Any, Any], None], str]] = [
    (read_metadata, "open"),
    (read_manifest_list, "open"),
    (read_manifest, "open"),
    *((write_metadata, kind) for kind in ("create", "write", "close")),
    *((append, kind) for kind in ("create", "write", "close")),
]


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultySession]:
    lake = Lake.at(tmp_path_factory.mktemp("store") / "lake")
    with FaultySession.over(lake, spark) as faulty:
        faulty.sql(f"CREATE NAMESPACE {NAMESPACE}")
        faulty.sql(f"CREATE TABLE {TABLE} (id BIGINT) USING iceberg")
        faulty.sql(f"INSERT INTO {TABLE} SELECT 1L")
        yield faulty


@pytest.mark.parametrize(("call", "kind"), CALLS)
def test_an_error_of_the_store_is_not_taken_for_broken_metadata(
    session: FaultySession, call: Callable[[Any, Any], None], kind: str
) -> None:
    table = load(session)
    session.faults.arm(kind, 1, 1, "")
    try:
        with pytest.raises(LakeProviderError, match="Input/output error") as told, lake_errors(f"table {TABLE}", dict):
            call(session.spark._jvm, table)
    finally:
        assert "raised " in session.faults.disarm()
    assert type(told.value) is JobFailedError
