"""Staged files of a live driver that fails: removed, and kept where its commit may have been made."""

from __future__ import annotations

import itertools
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError, UnknownOutcomeError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap, write_deletes
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.spark.faulty_catalog import FaultyCatalog
from tests.spark.full_disk import files_of_at_most
from tests.spark.maintained_table import MaintainedTable
from tests.spark.row_change_flow import delete
from tests.spark.upsert_flow import Flow, row

WAYS = [
    ("2", UpsertStrategy.POSITIONS),
    ("3", UpsertStrategy.POSITIONS),
    ("2", UpsertStrategy.COPY_ON_WRITE),
    ("3", UpsertStrategy.MERGE),
    ("2", UpsertStrategy.EQUALITY),
]
# From one that no data file has to one that only metadata is longer than.
SIZES = (700, 2200, 5200)
# The first row of each file.
FIRSTS = f"id IN ({', '.join(str(10 * place) for place in range(20))})"
AUDITS = Audits(queries={"positive": "SELECT * FROM batch WHERE n < 0"})


@pytest.fixture(scope="module", params=WAYS, ids=[f"{strategy.value}, version {version}" for version, strategy in WAYS])
def applied_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Flow:
    """A table of several partitions with a batch, and another batch that waits."""
    version, strategy = request.param
    layout = TableLayout(properties={"format-version": version}, partition_by=("n",))
    name, inbox = f"failed.t_{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("failed")
    flow = Flow(spark, name, inbox, {"create": layout, "strategy": strategy, "keys": ("id", "n")})
    flow.arrive("1.jsonl", *(row(key, "a", key % 3) for key in range(30)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(key, "b" * (1 + 40 * (key % 3)), key % 3) for key in range(20, 50)))
    return flow


@pytest.fixture
def flow(applied_once: Flow) -> Flow:
    """The same table, of the test's own. Files of others are there before it begins."""
    return applied_once.copy(f"failed.t_{uuid.uuid4().hex[:8]}")


def location(flow: Flow) -> Path:
    return Path(flow.loaded().location().removeprefix("file://").removeprefix("file:"))


def on_disk(flow: Flow) -> set[str]:
    """Files of the table, but for metadata that Iceberg wrote for a commit that was not made: those are its own."""
    return {path.name for path in location(flow).rglob("*") if path.is_file() and ".metadata.json" not in path.name}


def of_the_table(table: Table) -> set[str]:
    """Files that a snapshot of the table names, as PyIceberg reads them."""
    found: set[str] = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
    return {path.rpartition("/")[2] for path in found}


def failed(flow: Flow, **changes: Any) -> LakeProviderError | None:
    try:
        dispatch_action(flow.spark, flow.spec("run 2", **changes), Progress())
    except LakeProviderError as error:
        return error
    return None


def half_written(flow: Flow, size: int) -> set[str]:
    """Files of an attempt of Iceberg's own writers that a disk ended in the middle of one: they delete none of them.

    Their names have what only the writer knows. In an object store there is no half of a file.
    """
    paths = [path for path in location(flow).rglob("*") if path.suffix in (".parquet", ".avro") and path.is_file()]
    ended = {attempt_of(path.name) for path in paths if path.stat().st_size == size or is_cut_off(path)}
    return {path.name for path in paths if attempt_of(path.name) in ended and not path.name.startswith("lake-")}


def is_cut_off(path: Path) -> bool:
    return path.suffix == ".parquet" and not path.read_bytes().endswith(b"PAR1")


def attempt_of(name: str) -> str:
    """Return the part of a name that the files of a task, or of a commit, have in common."""
    unique = re.search(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", name)
    return unique[0] if unique else name


def assert_tidy(flow: Flow, before: set[str], size: int = -1) -> None:
    left = on_disk(flow) - before - of_the_table(flow.loaded()) - half_written(flow, size)
    assert left == set()
    assert not [name for name in flow.loaded().refs() if name.startswith("lake_stage")]


@pytest.mark.parametrize("audited", [False, True], ids=["plain", "audited"])
def test_nothing_is_left_of_a_batch_that_a_full_disk_ends(flow: Flow, audited: bool) -> None:
    before = on_disk(flow)
    changes: dict[str, Any] = {"audits": AUDITS} if audited else {}
    ended = []
    for size in SIZES:
        with files_of_at_most(flow.spark, size):
            error = failed(flow, **changes)
        # The limit is one of the catalog's database, too.
        if error is not None and not isinstance(error, UnknownOutcomeError):
            ended.append(size)
            assert_tidy(flow, before, size)
        before = on_disk(flow)
    assert len(ended) == 3
    assert flow.apply("run 2", **changes).outcome is Outcome.APPLIED


@pytest.mark.parametrize("audited", [False, True], ids=["plain", "audited"])
def test_nothing_is_left_of_a_batch_that_the_catalog_refuses(flow: Flow, audited: bool) -> None:
    changes: dict[str, Any] = {"audits": AUDITS} if audited else {}
    # Commits of a stage branch come before the one of main.
    for first in (1, 2, 3):
        before = on_disk(flow)
        with FaultyCatalog.of(flow.spark).refusing(first, once=True):
            error = failed(flow, **changes)
        if error is None:
            break
        assert "the catalog takes no commit" in str(error)
        if flow.changes["strategy"] is UpsertStrategy.MERGE:
            # Iceberg keeps files of a statement whose commit a database refuses: it does not know why.
            before |= on_disk(flow)
        assert_tidy(flow, before)
    assert flow.apply("run 2", **changes).outcome in (Outcome.APPLIED, Outcome.ALREADY_APPLIED)


def test_what_may_have_been_committed_is_kept(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    before = on_disk(flow)
    java: Any = flow.spark._jvm

    def lose(*_: Any) -> None:
        # As of a database whose connection ended, which Iceberg gives no name of its own.
        raise_java(flow, java.java.sql.SQLNonTransientConnectionException("the connection was lost"))

    with monkeypatch.context() as patched:
        patched.setattr(metadata_swap, "_send", lose)
        error = failed(flow)
    assert isinstance(error, UnknownOutcomeError)
    assert on_disk(flow) - before - of_the_table(flow.loaded()) or flow.loaded().refs().keys() - {"main"}


def test_nothing_is_left_of_deletes_that_were_being_written_when_another_failed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark, version=2)
    for place in range(20):
        table.append(10 * place, 2)
    before, upload, begun = table.files_on_disk(), write_deletes.upload_delete_file, itertools.count()

    def fail_once(*given: Any) -> str:
        if next(begun) == 3:
            raise OSError("the store said no")
        time.sleep(0.1)
        return upload(*given)

    with monkeypatch.context() as patched:
        patched.setattr(write_deletes, "upload_delete_file", fail_once)
        with pytest.raises(JobFailedError, match="OSError"):
            delete(table, where=FIRSTS)
    assert table.files_on_disk() == before
    # Those that had not begun were given up.
    assert next(begun) < 20
    assert delete(table, where=FIRSTS).rows_deleted == 20


def raise_java(flow: Flow, cause: Any) -> None:
    from py4j.protocol import Py4JJavaError

    raise Py4JJavaError("lost", flow.spark._jvm.java.lang.RuntimeException("lost", cause))  # type: ignore[union-attr]
