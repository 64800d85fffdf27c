"""A real driver process, killed amid upserts at each of their phases and amid other loads, and the retry in another."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.batches import Batch, Change, Inbox, Model
from tests.soak.driver import Driver, DriverDiedError
from tests.soak.lake import CATALOG, NAMESPACE, Lake
from tests.spark import killed_loads
from tests.spark.killed_driver import AFTER_COMMIT, AFTER_VECTORS, PHASES
from tests.spark.killed_loads import KILLED_LOADS, load_of, rows_of

FIRST = tuple(Change(key, "first", key, False) for key in range(20))
SECOND = tuple(Change(key, "second", 100 + key, key < 8) for key in range(5, 25))
# Vectors are of format version 3; what a kill leaves on version 2 are files of position deletes.
MOMENTS = {**dict.fromkeys(PHASES, "3"), AFTER_VECTORS: "3", AFTER_COMMIT: "2"}
OTHERS = {"after copying": UpsertStrategy.COPY_ON_WRITE, "before publish": UpsertStrategy.MERGE}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake.at(tmp_path_factory.mktemp("killed") / "lake")


@pytest.fixture(scope="module")
def retrying(lake: Lake) -> Iterator[Driver]:
    """One driver for what is done before the kills and after them."""
    with Driver(lake, "retries") as driver:
        driver.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
        yield driver


@pytest.fixture(scope="module")
def exit_code(lake: Lake, retrying: Driver) -> int:
    """Exit code of the one driver that dies at all moments at once, each in a task of its own."""
    with Driver(lake, "killed", "tests.spark.killed_driver:serve_until_killed") as driver:
        retrying.start(arrived(lake, "1", FIRST, killed_loads.FIRST))
        for answer in retrying.answers().values():
            assert reported(answer).outcome is Outcome.APPLIED
        driver.start(arrived(lake, "2", SECOND, killed_loads.SECOND))
        with pytest.raises(DriverDiedError):
            driver.answers()
        # One that hangs has no exit code.
        return driver.process.wait(10)


def arrived(lake: Lake, number: str, changes: tuple[Change, ...], rows: tuple[Change, ...]) -> Job:
    """Let a batch arrive for each table, and return the job that applies it to all at once.

    :param changes: for the upserts by key, which have deletes.
    """
    for name in (*MOMENTS, *KILLED_LOADS):
        inbox(lake, name).arrive(number, rows if name in KILLED_LOADS else changes)
    tasks: dict[str, JobSpec] = {moment: spec(lake, moment, f"run {number}") for moment in MOMENTS}
    tasks |= {load: load_spec(lake, load, number) for load in KILLED_LOADS}
    return Job(tasks, parallelism=len(tasks))


def table_of(moment: str) -> str:
    return f"{NAMESPACE}.t{[*MOMENTS, *KILLED_LOADS].index(moment)}"


def inbox(lake: Lake, moment: str) -> Inbox:
    return Inbox(lake.home / "inbox" / table_of(moment))


def spec(lake: Lake, moment: str, run: str, try_number: int = 1) -> UpsertSpec:
    return UpsertSpec(
        catalog=CATALOG,
        table=table_of(moment),
        run=RunIdentity.of("dag", run, "task", "-1", try_number=try_number),
        source=inbox(lake, moment).source(),
        keys=("id",),
        delete_when="op = 'd'",
        schema_contract=SchemaContract(exclude_columns=("op",)),
        create=TableLayout(properties={"format-version": MOMENTS[moment]}),
        strategy=OTHERS.get(moment, UpsertStrategy.POSITIONS),
    )


def load_spec(lake: Lake, load: str, number: str, try_number: int = 1) -> JobSpec:
    run = RunIdentity.of("dag", f"run {number}", "task", "-1", try_number=try_number)
    return load_of(load, {"catalog": CATALOG, "table": table_of(load), "run": run}, inbox(lake, load), number)


def left_by(*batches: tuple[Change, ...]) -> Model:
    model: Model = {}
    for batch in batches:
        Batch(batch).apply_to(model)
    return model


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_retry_of_a_killed_driver_leaves_the_right_rows_and_one_snapshot(
    lake: Lake, retrying: Driver, exit_code: int, moment: str
) -> None:
    assert exit_code == -signal.SIGKILL
    table = table_of(moment)
    committed = moment == AFTER_COMMIT
    assert lake.rows(table) == (left_by(FIRST, SECOND) if committed else left_by(FIRST))

    report = reported(retrying.run(spec(lake, moment, "run 2", try_number=2)))

    assert report.outcome is (Outcome.ALREADY_APPLIED if committed else Outcome.APPLIED)
    assert lake.rows(table) == left_by(FIRST, SECOND)
    history = [head.run_key for head in lake.heads(table)]
    assert (len(history), history.count(report.run_key)) == (2, 1)


@pytest.mark.parametrize("load", KILLED_LOADS)
def test_the_retry_of_a_killed_load_leaves_each_row_once(
    lake: Lake, retrying: Driver, exit_code: int, load: str
) -> None:
    assert exit_code == -signal.SIGKILL
    table, after = table_of(load), KILLED_LOADS[load].after
    assert rows_of(lake, table) == sorted(after["1"])
    retry = load_spec(lake, load, "2", try_number=2)
    assert reported(retrying.run(retry)).outcome is Outcome.APPLIED
    assert rows_of(lake, table) == sorted(after["2"])
    assert reported(retrying.run(retry)).outcome is Outcome.ALREADY_APPLIED
    assert len(lake.heads(table)) == 2


def reported(answer: JobReport | JobFailure) -> JobReport:
    assert isinstance(answer, JobReport), answer.traceback
    return answer
