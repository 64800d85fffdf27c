"""Threads of a driver that rewrite small files: how many, with how much memory, beside others that import."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile
from zipimport import zipimporter

import pyspark
import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionRunner
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import executors
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.executors import (
    DriverTurns,
    cores_of_driver,
    memory_obstacle,
    turns_in_driver,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_parts import FilePart
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_groups import ArrowRewrite
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import rewrite_splits


@pytest.fixture
def importer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> zipimporter:
    """An importer that Python has made of an archive."""
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.py", "")
    made = zipimporter(str(tmp_path / "a.zip"))
    monkeypatch.setattr(sys, "path_importer_cache", {"a.zip": made})
    return made


def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(taskAttemptId=lambda: 7, attemptNumber=lambda: 0)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: task)


@pytest.mark.parametrize("is_worker", [False, True])
def test_only_a_worker_stops_python_from_reading_archives_again(
    importer: zipimporter, monkeypatch: pytest.MonkeyPatch, is_worker: bool
) -> None:
    if is_worker:
        in_a_task(monkeypatch)
    assert list(rewrite_splits((), TableFiles())) == []
    assert ("invalidate_caches" in vars(importer)) == is_worker


@pytest.mark.usefixtures("importer")
@pytest.mark.parametrize("is_worker", [False, True])
def test_an_import_meanwhile_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, is_worker: bool) -> None:
    class Importing:
        """Stands for an importer; whoever looks at it is overtaken by an import of another thread."""

        @property  # type: ignore[misc]  # as mocks have it
        def __class__(self) -> Any:
            sys.path_importer_cache[f"{len(sys.path_importer_cache)}"] = None
            return Importing

    sys.path_importer_cache["b"] = Importing()  # type: ignore[assignment]
    if is_worker:
        in_a_task(monkeypatch)
    assert list(rewrite_splits((), TableFiles())) == []


class _Context(SimpleNamespace):
    # As that of Spark, which is kept by what it is.
    __hash__ = object.__hash__  # type: ignore[assignment]


def session(master: str, *, parallelism: int = 200, processors: int = 3) -> Any:
    """Return what is asked of a session; its master is on a machine with so many processors."""
    runtime = SimpleNamespace(getRuntime=lambda: SimpleNamespace(availableProcessors=lambda: processors))
    java = SimpleNamespace(lang=SimpleNamespace(Runtime=runtime))
    conf = SimpleNamespace(get=lambda _: master)
    context = _Context(
        master=master,
        defaultParallelism=parallelism,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: conf)),
    )
    return SimpleNamespace(sparkContext=context, _jvm=SimpleNamespace(java=java))


MASTERS = [
    ("local", 1),
    ("local[2]", 2),
    ("local[2,4]", 2),
    ("local[2, 4]", 2),
    ("local[*]", 3),
    ("local[*,4]", 3),
    ("local-cluster[1,1,900]", None),
    ("spark://h:7077", None),
    ("yarn", None),
]


@pytest.mark.parametrize(("master", "cores"), MASTERS)
def test_as_many_threads_have_a_turn_as_the_master_has_cores_whatever_the_parallelism(
    master: str, cores: int | None
) -> None:
    spark = session(master)
    assert cores_of_driver(spark) == cores
    turns = turns_in_driver(spark)
    assert turns is turns_in_driver(spark)
    if cores is None:
        assert turns is None
        return
    assert turns is not None
    with ExitStack() as taken:
        assert [taken.enter_context(turns.one()) for _ in range(cores)] == list(range(1, cores + 1))
        with ThreadPoolExecutor(1) as other:
            later, has_begun = Event(), Event()

            def wait() -> int:
                has_begun.set()
                with turns.one() as running:
                    later.set()
                    return running

            answer = other.submit(wait)
            has_begun.wait()
            assert not later.wait(0.05)
            taken.close()
            assert answer.result() == 1


@pytest.mark.parametrize(("master", "wanted"), [("local[2]", 2), ("local[16]", 16), ("local[*]", 3)])
def test_memory_is_wanted_for_every_core_of_a_local_master(
    master: str, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left, is_enough in ((wanted * executors.MEMORY_OF_A_TASK, True), (wanted * 700 - 1, False)):
        monkeypatch.setattr(executors, "memory_left", lambda left=left: left)
        assert (memory_obstacle(session(master), 200) is None) == is_enough


def test_memory_is_asked_within_the_turn_for_all_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunIdentity.of("dag", "run", "task", "-1")
    spec = CompactionSpec(catalog="lake", table="shop.orders", run=run, runner=CompactionRunner.AUTO)
    turns, spark = DriverTurns(3), session("local[3]")
    monkeypatch.setattr(rewrite_groups, "turns_in_driver", lambda _: turns)
    monkeypatch.setattr(rewrite_groups, "rewrite_splits", lambda splits, _: splits)
    monkeypatch.setattr(executors, "memory_left", lambda: 2 * executors.MEMORY_OF_A_TASK)
    table: Any = SimpleNamespace(spark=spark)
    split: Any = SimpleNamespace(
        stem="/lake/a", parts=(FilePart(path="/lake/b", start=0, length=9, sequence_number=1),)
    )

    def rewritten() -> tuple[list[Any], str | None]:
        return ArrowRewrite(table, spec)._run([split], TableFiles())

    assert rewritten() == ([split], None)
    with turns.one():
        assert rewritten() == ([split], None)
        with turns.one():
            results, reason = rewritten()
    assert results == []
    assert str(reason).startswith("a machine has less memory left")
    assert rewritten() == ([split], None)
