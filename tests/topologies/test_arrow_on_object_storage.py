"""Compaction by Arrow of tables in S3: what it leaves there is what Spark's own rewrite leaves of a twin."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from tests.end_to_end.lake_environment import REPOSITORY
from tests.end_to_end.secret_watch import new_mark
from tests.soak.driver import Driver, session_environment
from tests.soak.lake import CATALOG, NAMESPACE, Lake
from tests.spark.conftest import lake_jars
from tests.topologies.object_storage import BUCKET, aws_jars, object_storage
from tests.topologies.recorded_pickles import FILE
from tests.topologies.rest_catalog import rest_catalog

pytestmark = [pytest.mark.live, pytest.mark.slow]

WAREHOUSE = f"s3://{BUCKET}/warehouse"
# Values of a partition that a path has to escape, or must not.
NAMES = ("a b", "50%", "x=y", "1+1", "é/ü")
LEFT = [id_ for id_ in range(150) if id_ % 10 != 3]
METRICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass
class Store:
    """A driver beside a guarded store.

    :param faults: folder of ``guarded_store``.
    :param mark: which every secret has in it.
    """

    lake: Lake
    driver: Driver
    bucket: Any
    faults: Path
    mark: str

    def make(self, name: str, version: int, scheme: str = "s3") -> str:
        """Make a table of three files for each partition, with deletes."""
        table, names = f"{NAMESPACE}.{name}", ", ".join(f"'{name}'" for name in NAMES)
        self.driver.sql(
            f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING, price DOUBLE) USING iceberg PARTITIONED BY (name)"
            f" LOCATION '{scheme}://{BUCKET}/{_folder(table)}' TBLPROPERTIES ('format-version'='{version}',"
            " 'write.delete.mode'='merge-on-read', 'write.distribution-mode'='none')"
        )
        self.driver.sql(
            f"INSERT INTO {table} SELECT id, element_at(array({names}), cast(id % 5 AS INT) + 1) name,"
            " IF(id % 11 = 0, double('NaN'), id / 3) price FROM range(0, 150, 1, 3)"
        )
        self.driver.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
        return table

    def compact(self, table: str, runner: CompactionRunner) -> CompactionReport:
        identity = RunIdentity.of("stores", f"{table} {runner.value}", "task", "-1")
        spec = CompactionSpec(catalog=CATALOG, table=table, run=identity, runner=runner, level=CompactionLevel.FULL)
        report = self.driver.run(spec)
        assert isinstance(report, CompactionReport), report
        return report

    def live_files(self, table: str) -> list[dict[str, Any]]:
        loaded = self.lake.catalog().load_table(table)
        return list(loaded.inspect.files().to_pylist())

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of the data files, with row ids and last changes where they have them, as pyarrow reads them."""
        assert all(file["content"] == 0 for file in self.live_files(table))
        bodies = (self._content(file["file_path"]) for file in self.live_files(table))
        return sorted(tuple(map(str, row.values())) for body in bodies for row in pq.read_table(body).to_pylist())

    def metrics(self, table: str) -> list[str]:
        files = self.live_files(table)
        return sorted(str([file["partition"], *(sorted(file[name]) for name in METRICS)]) for file in files)

    def unnamed(self, table: str) -> set[str]:
        """Objects in a table's folder of data that no snapshot names."""
        objects = {each.key for each in self.bucket.objects.filter(Prefix=f"{_folder(table)}/data/")}
        named = self.lake.catalog().load_table(table).inspect.all_files()["file_path"].to_pylist()
        return objects - {_key(location) for location in named}

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        (self.faults / name).touch()
        yield
        (self.faults / name).unlink()

    def _content(self, location: str) -> io.BytesIO:
        return io.BytesIO(self.bucket.Object(_key(location)).get()["Body"].read())


def _folder(table: str) -> str:
    return f"warehouse/{table.replace('.', '/')}"


def _key(location: str) -> str:
    return location.partition("://")[2].partition("/")[2]


@pytest.fixture(scope="module")
def jars() -> tuple[Path, ...]:
    return aws_jars(Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "aws-jars")


@contextmanager
def guarded(home: Path, port: int, mark: str) -> Iterator[tuple[dict[str, str], Path, Any]]:
    """Serve a store that only answers to its keys; return them, the folder of its faults, and the bucket."""
    faults = home / "faults"
    faults.mkdir()
    server = (sys.executable, "-m", "tests.topologies.guarded_store", faults)
    with object_storage(port, home / "store.log", mark, server) as given:
        store = {**given, "s3.session-token": f"{mark}session-token"}
        (faults / "keys").write_text(f"{store['s3.access-key-id']} {store['s3.session-token']}")
        client = boto3.resource(
            "s3",
            endpoint_url=store["s3.endpoint"],
            region_name=store["s3.region"],
            aws_access_key_id=store["s3.access-key-id"],
            aws_secret_access_key=store["s3.secret-access-key"],
            aws_session_token=store["s3.session-token"],
        )
        yield store, faults, client.Bucket(BUCKET)


@contextmanager
def driving(lake: Lake, jars: tuple[Path, ...]) -> Iterator[Driver]:
    """Start a driver that leaves its event log and its pickles."""
    events = lake.home / "events"
    for folder in (events, lake.home / "pickles"):
        folder.mkdir()
    with lake.properties.open("a") as settings:
        settings.write(f"spark.eventLog.enabled true\nspark.eventLog.dir file://{events}\n")
        settings.write("spark.eventLog.compress false\n")
    class_path = ":".join([*lake_jars().split(","), *map(str, jars)])
    settings_of_keys = {f"AWS_{name}": "" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")}
    # As on a cluster, a task that fails is tried again.
    submit = session_environment(lake)["PYSPARK_SUBMIT_ARGS"].replace("local[1]", "local[1,4]")
    environment = {
        "SPARK_DIST_CLASSPATH": class_path,
        "PYSPARK_SUBMIT_ARGS": submit,
        FILE: str(lake.home / "pickles" / "all"),
        **settings_of_keys,
    }
    with Driver(lake, "arrow", "tests.topologies.recorded_pickles:serve", **environment) as driver:
        driver.sql(f"CREATE NAMESPACE {NAMESPACE}")
        yield driver


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int], jars: tuple[Path, ...]
) -> Iterator[Store]:
    home, mark = tmp_path_factory.mktemp("stores"), new_mark()
    with guarded(home, unused_tcp_port_factory(), mark) as (properties, faults, bucket):
        lake = Lake.at(home / "lake", warehouse=WAREHOUSE, **properties)
        with driving(lake, jars) as driver:
            yield Store(lake, driver, bucket, faults, mark)


def ids(rows: list[tuple[Any, ...]]) -> list[int]:
    return sorted(int(row[0]) for row in rows)


def assert_arrow_equals_spark(store: Store, ours: str, theirs: str) -> None:
    report = store.compact(ours, CompactionRunner.ARROW)
    assert (report.outcome, report.left_to_spark) == (Outcome.DONE, {})
    assert report.groups_by_arrow == report.groups_rewritten == len(NAMES)
    assert store.compact(theirs, CompactionRunner.SPARK).outcome is Outcome.DONE
    assert ids(store.rows(ours)) == LEFT
    assert store.rows(ours) == store.rows(theirs)
    assert store.metrics(ours) == store.metrics(theirs)
    assert store.unnamed(ours) == set()


@pytest.mark.parametrize(("version", "scheme"), [(2, "s3"), (3, "s3a")])
def test_a_table_in_s3_is_what_sparks_own_rewrite_makes_of_it(store: Store, version: int, scheme: str) -> None:
    name = f"of_{scheme}_{version}"
    assert_arrow_equals_spark(store, store.make(name, version, scheme), store.make(f"{name}_twin", version, scheme))


def test_a_secret_is_neither_in_the_event_log_nor_in_a_pickled_task_and_no_file_keeps_it(store: Store) -> None:
    assert store.compact(store.make("unshown", 3), CompactionRunner.ARROW).groups_by_arrow == len(NAMES)

    home, mark = store.lake.home, store.mark.encode()
    pickles, events, scratch = ((home / name).rglob("*") for name in ("pickles", "events", "scratch"))
    pickled, logged, left = (
        b"".join(p.read_bytes() for p in each if p.is_file()) for each in (pickles, events, scratch)
    )
    assert b"rewrite_splits" in pickled
    assert b"by Arrow" in logged
    assert [mark in each for each in (pickled, logged, left)] == [False, False, False]


@pytest.mark.parametrize(
    ("fault", "reason"), [("expired", "HeadObject"), ("full", "UploadPart"), ("lost", "HeadObject")]
)
def test_a_store_that_refuses_arrow_leaves_its_groups_to_spark_and_no_object_of_arrow(
    store: Store, fault: str, reason: str
) -> None:
    table = store.make(fault, 3)
    with store.fault(fault):
        report = store.compact(table, CompactionRunner.ARROW)
    assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, 0)
    # One reason for all, without the names of files.
    assert list(report.left_to_spark.values()) == [len(NAMES)]
    assert reason in next(iter(report.left_to_spark))
    assert not [text for text in (store.mark, "parquet") if text in str(report.left_to_spark)]
    assert ids(store.rows(table)) == LEFT
    assert store.unnamed(table) == set()


# Arrow asks again where a request is throttled, but for a read of fewer bytes than the answer's error has.
@pytest.mark.parametrize(("fault", "most_by_arrow"), [("slow", len(NAMES)), ("halfway", len(NAMES) - 1)])
def test_a_store_that_fails_halfway_leaves_the_rest_to_spark_and_no_object_that_no_snapshot_names(
    store: Store, fault: str, most_by_arrow: int
) -> None:
    table = store.make(fault, 3)
    with store.fault(fault):
        report = store.compact(table, CompactionRunner.ARROW)
    assert (report.outcome, report.groups_rewritten) == (Outcome.DONE, len(NAMES))
    assert report.groups_by_arrow + sum(report.left_to_spark.values()) == len(NAMES)
    assert report.groups_by_arrow <= most_by_arrow
    assert ids(store.rows(table)) == LEFT
    assert store.unnamed(table) == set()


def test_a_worker_that_is_killed_while_it_uploads_leaves_no_object_that_no_snapshot_names(
    store: Store,
) -> None:
    table = store.make("killed", 3)
    # Each new file has one: others of the task are finished then.
    (store.faults / "kill").write_text("3")
    report = store.compact(table, CompactionRunner.ARROW)
    assert not (store.faults / "kill").exists()
    assert (report.outcome, report.groups_by_arrow, report.left_to_spark) == (Outcome.DONE, len(NAMES), {})
    assert ids(store.rows(table)) == LEFT
    assert store.unnamed(table) == set()


def test_the_keys_that_a_rest_catalog_hands_out_open_its_tables(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], jars: tuple[Path, ...]
) -> None:
    mark = new_mark()
    with guarded(tmp_path, unused_tcp_port_factory(), mark) as (properties, faults, bucket):
        java = {**properties, "s3.path-style-access": "true", "client.region": properties["s3.region"]}
        behind = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/behind.db",
            "jdbc.schema-version": "V1",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "warehouse": WAREHOUSE,
            "token": f"{mark}token",
            **java,
            **{f"vend.{name}": value for name, value in java.items()},
        }
        with rest_catalog(unused_tcp_port_factory(), tmp_path / "requests.log", behind, jars) as uri:
            lake = Lake.at(tmp_path / "lake", type="rest", uri=uri, warehouse=WAREHOUSE, token=f"{mark}token")
            with driving(lake, jars) as driver:
                store = Store(lake, driver, bucket, faults, mark)
                assert_arrow_equals_spark(store, store.make("vended", 3), store.make("vended_twin", 3))
