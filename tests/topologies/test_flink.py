"""A Flink job goes on after our maintenance from its last checkpoint, or the maintenance is refused beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.conftest import start_session
from tests.topologies.flink_beside import TableBesideFlink
from tests.topologies.flink_jobs import FlinkError, FlinkJobs, flink_jobs

pytestmark = [pytest.mark.live, pytest.mark.slow]

NewTable = Callable[..., TableBesideFlink]
JOBS = [
    *(
        (sink, upsert, version)
        for sink in ("FlinkSink", "IcebergSink")
        for upsert in (False, True)
        for version in (2, 3)
    ),
    ("DynamicIcebergSink", False, 2),
    ("DynamicIcebergSink", False, 3),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(home: Path) -> Iterator[SparkSession]:
    # A session loads a catalog once: one that other tests have started has theirs.
    others = SparkSession.getActiveSession()
    session = others or start_session(home)
    yield session
    if others is None:
        session.stop()


@pytest.fixture(scope="module")
def jobs(home: Path, spark: SparkSession) -> Iterator[FlinkJobs]:
    names = ("uri", "jdbc.schema-version", "warehouse")
    catalog = {name: str(spark.conf.get(f"spark.sql.catalog.lake_default.{name}")) for name in names}
    with flink_jobs(home / "flink", {"name": "lake_default", **catalog}) as running:
        yield running


@pytest.fixture
def new_table(spark: SparkSession, jobs: FlinkJobs, tmp_path: Path) -> NewTable:
    """Make a table that a job has written to, and ended."""

    def make(sink: str, upsert: bool, version: int, name: str = "") -> TableBesideFlink:
        name = name or f"{sink}_{'upsert' if upsert else 'append'}_{version}"
        table = TableBesideFlink(spark, jobs, tmp_path, name.lower(), sink, upsert, version)
        table.job_writes("first")
        return table

    return make


@pytest.fixture(params=JOBS, ids=lambda job: f"{job[0]} by {'upsert' if job[1] else 'append'} on version {job[2]}")
def table(new_table: NewTable, request: pytest.FixtureRequest) -> TableBesideFlink:
    return new_table(*request.param)


def test_a_job_goes_on_after_our_maintenance_or_is_named_by_the_refusal(table: TableBesideFlink) -> None:
    maintenance: dict[str, Callable[[TableBesideFlink], object]] = {
        "compacted": TableBesideFlink.compact,
        "upserted": lambda table: table.upsert_rows("ours"),
        "deleted": TableBesideFlink.delete_row,
        "rolled back": undo_an_upsert,
        "upgraded": upgrade,
        "expired": expire_after_compaction,
        "expired again": expire_after_compaction,
    }
    for word, act in maintenance.items():
        act(table)
        table.job_writes(word, stops=word == "upserted")
        assert table.rows_read() == table.rows, word


def undo_an_upsert(table: TableBesideFlink) -> None:
    head, rows = table.head(), dict(table.rows)
    table.upsert_rows("wrong")
    assert table.roll_back(head).warnings == ()
    (table.folder / table.name / "wrong.jsonl").unlink()
    table.rows = rows


def upgrade(table: TableBesideFlink) -> None:
    if table.version == 3:
        assert table.upgrade().outcome is Outcome.NOTHING_DUE
        return
    with pytest.raises(UnsupportedError, match=f"Flink job {table.job_id} "):
        table.upgrade()
    if not table.upsert:
        assert table.upgrade(allow_other_writers=True).format_version == 3


def expire_after_compaction(table: TableBesideFlink) -> None:
    table.delete_row()
    table.compact()
    if table.version == 3 and table.upsert:
        with pytest.raises(UnsupportedError, match=f"Flink job {table.job_id} "):
            table.expire()
        return
    report = table.expire()
    assert report.outcome is Outcome.DONE
    assert set(report.kept_for_flink.values()) == {table.job_id}


@pytest.mark.parametrize("sink", ["FlinkSink", "IcebergSink"])
def test_upserts_fail_where_the_refusal_to_expire_a_table_of_version_3_was_overruled(
    new_table: NewTable, sink: str
) -> None:
    table = new_table(sink, True, 3, name=f"overruled_{sink}")
    table.job_writes("second")
    table.compact()
    with pytest.raises(UnsupportedError, match=f"Flink job {table.job_id} "):
        table.expire()
    report = table.expire(allow_other_writers=True)
    assert table.job_id in report.warnings[0]
    # It is restored, as its last commit is kept, and fails at the next.
    table.job_begins()
    with pytest.raises(FlinkError, match="Cannot determine history between starting snapshot null"):
        table.job_commits("expired")


@pytest.mark.parametrize("sink", ["FlinkSink", "IcebergSink"])
def test_a_running_job_fails_where_the_refusal_to_upgrade_was_overruled(new_table: NewTable, sink: str) -> None:
    table = new_table(sink, True, 2, name=f"stranded_{sink}")
    table.job_begins()
    table.job_commits("version 2")
    with pytest.raises(UnsupportedError, match=f"Flink job {table.job_id} "):
        table.upgrade()
    report = table.upgrade(allow_other_writers=True)
    assert table.job_id in report.warnings[-1]
    with pytest.raises(FlinkError, match="Must use DVs for position deletes in V3"):
        table.job_commits("version 3")
    # Its last checkpoint holds them for good. The one before does not, where Flink has retained it.
    before, table.checkpoint = table.checkpoint, table.checkpoint.replace("chk-2", "chk-3")
    with pytest.raises(FlinkError, match="Must use DVs for position deletes in V3"):
        table.job_begins()
    table.checkpoint = before
    table.job_writes("once more")
    assert table.rows_read() == table.rows


def test_a_stopped_job_upserts_into_version_3_while_the_history_is_whole(new_table: NewTable) -> None:
    table = new_table("IcebergSink", True, 2, name="stopped_icebergsink")
    table.job_writes("version 2", stops=True)
    table.upgrade(allow_other_writers=True)
    table.job_writes("version 3")
    assert table.rows_read() == table.rows


def test_a_job_whose_last_commit_is_rolled_back_is_named_and_goes_on_from_the_checkpoint_that_is_told(
    new_table: NewTable,
) -> None:
    table = new_table("IcebergSink", True, 2, name="rolled_back_icebergsink")
    table.job_begins()
    table.job_commits("kept")
    head, rows, kept = table.head(), dict(table.rows), table.checkpoint
    table.job_commits("wrong")
    table.jobs.kill(table.name)

    (warning,) = table.roll_back(head).warnings
    assert f"Flink job {table.job_id} " in warning
    assert "start it from checkpoint 2 " in warning
    with pytest.raises(FlinkError, match="Failed to open input stream"):
        table.job_begins()
    table.checkpoint, table.rows = kept, rows
    table.job_writes("again")
    assert table.rows_read() == table.rows
