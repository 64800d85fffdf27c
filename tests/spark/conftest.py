"""One Spark session for all tests of this folder, with an Iceberg catalog on SQLite in a folder of its own."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs import retry_conflicts
from airflow_lake_provider.spark_jobs.jvm.py4j_patches import remember_lookups, send_lists_at_once
from airflow_lake_provider.spark_jobs.session.open_session import CALL_SITES
from tests.soak.java_class import java_class
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.upsert_flow import Flow, NewFlow

REPOSITORY = Path(__file__).parents[2]
QUICK_FILES = REPOSITORY / "tests" / "soak" / "QuickFiles.java"
# Drivers of seconds, which inherit the environment's options, never optimise their bytecode. Here it pays for code that
# runs often: planning took a fifth less time after 150 tests. At the thresholds of the JVM, a fourth of these,
# compiling took as much as it gave. Optimised code that inlines less was as quick here, and took half as much time to
# compile. Until its classes fit, the whole heap was collected five times.
LONG_LIVED_JVM = (
    "-XX:+UseSerialGC -XX:MetaspaceSize=400m -XX:ReservedCodeCacheSize=512m"
    " -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=3000"
    " -XX:Tier4CompileThreshold=40000 -XX:Tier4BackEdgeThreshold=120000"
    " -XX:FreqInlineSize=100 -XX:InlineSmallCode=1000 -XX:MaxInlineLevel=9"
    " -XX:-DoEscapeAnalysis -XX:-PartialPeelLoop -XX:-UseSuperWord"
)
EARLIER_MOUNT = "spark.hadoop.fs.viewfs.mounttable.earlier.link"


def lake_jars() -> str:
    """The jars of the folder that LAKE_JARS names, by default the one the set-up script fills."""
    folder = Path(os.environ.get("LAKE_JARS", REPOSITORY / ".lake" / "jars"))
    jars = sorted(str(jar) for jar in folder.glob("*.jar"))
    assert jars, f"no jars in {folder}; run the set-up script, or name their folder in LAKE_JARS"
    return ",".join(jars)


def start_session(home: Path) -> SparkSession:
    """Start a session with an Iceberg catalog below a folder; its JVM is set for a life of many minutes."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    catalog = "spark.sql.catalog.lake_default"
    settings = {
        "spark.driver.memory": "2g",
        # Plans die young. In the heap that a JVM begins with, collecting them took a ninth of its CPU time.
        "spark.driver.extraJavaOptions": "-Xms2g -Xmn1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Each table of a join begins with a page, of 32 MB in this heap, and a broadcast keeps its own. After 200 tests
        # they were most of the old generation, and in a soak collecting it took a fourth of the CPU time.
        "spark.buffer.pageSize": "1m",
        "spark.ui.enabled": "false",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # A check of each rule of the planner, for who writes rules.
        "spark.sql.lightweightPlanChangeValidation": "false",
        CALL_SITES: "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.jars": lake_jars(),
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        # As in jobs; Spark 3.5 begins without it.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": "lake_default",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        # To wait for the disk at each commit took seconds of each minute; no test cuts the power.
        f"{catalog}.uri": f"jdbc:sqlite:{home / 'catalog.db'}?synchronous=OFF",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{home / 'warehouse'}",
        # A catalog keeps the mounts that it finds when it is loaded; see test_earlier_lake.py.
        **{f"{EARLIER_MOUNT}./{name}": f"file://{home / 'earlier' / name}" for name in ("inbox", "warehouse")},
    }
    builder = SparkSession.builder.master("local[2]").appName("lake tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", " ".join([LONG_LIVED_JVM, *_class_archive()]))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_lookups(session)
    send_lists_at_once(session)
    _write_files_quickly(session)
    return session


def _class_archive() -> list[str]:
    """Return the options of the archive of classes that the set-up script makes: a session starts with a third less."""
    given = os.environ.get("SPARK_SUBMIT_OPTS", "").split()
    return [option for option in given if option.startswith(("-XX:SharedArchiveFile=", "-Xlog:disable"))]


def _write_files_quickly(session: SparkSession) -> None:
    """Write no files of checksums, and start no process for each file of a local disk: it took a tenth of all time."""
    jvm: Any = session._jvm
    context: Any = session.sparkContext._jsc
    configuration = context.hadoopConfiguration()
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(configuration)
    local.setWriteChecksum(False)
    files = java_class(session, QUICK_FILES, "lake.files.QuickFiles")()
    files.initialize(local.getUri(), configuration)
    inner = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
    inner.setAccessible(True)
    inner.set(local, files)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("lake"))
    # Most of a test's CPU time is planning and compiling. Histories of a table and tests end to end plan as users do.
    with planned_for_tiny_batches(session):
        yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def short_waits() -> Iterator[None]:
    """Let a conflict be tried again at once: in one process nobody has to be parted from another writer.

    The waits are in ``tests/unit/spark_jobs/test_retry_conflicts.py``. Drivers of soaks wait as those of users do.
    """
    with pytest.MonkeyPatch.context() as patch:
        for longest in ("_LONGEST_WAIT", "_LONGEST_STEP_ASIDE"):
            patch.setattr(retry_conflicts, longest, 0.02)
        yield


@pytest.fixture
def new_flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> NewFlow:
    """Make the flow of a table of the test's own; its arguments are those of a spec that differ from the plain ones."""
    table = f"flows.t{zlib.crc32(request.node.nodeid.encode()):08x}"
    return lambda **changes: Flow(spark, table, tmp_path / "inbox", changes)


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    """Return the flow of a table with nothing but plain arguments."""
    return new_flow()


@pytest.fixture
def bench_lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """Return a session whose catalog `lake`, which the benchmarks write to, is below the test's own folder."""
    monkeypatch.delenv("LAKE_DELTA_JARS", raising=False)
    # A session loads a catalog once: in one session, the next test would write to the folder of the first.
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.lake.type", "hadoop")
    session.conf.set("spark.sql.catalog.lake.warehouse", f"file://{tmp_path}/warehouse")
    with planned_for_tiny_batches(session):
        yield session
