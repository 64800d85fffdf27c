"""Flink jobs that write to tables of a lake, on a mini cluster in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.end_to_end.lake_environment import REPOSITORY
from tests.spark.conftest import lake_jars
from tests.topologies.rest_catalog import java_with_compiler

_HERE = Path(__file__).parent
_SOURCE, _LOCK = _HERE / "FlinkJobs.java", _HERE / "flink.lock"
_FLINK = "2.1.0"
_ROOTS = (
    *(f"org.apache.flink:flink-{name}:{_FLINK}" for name in ("clients", "table-runtime", "connector-base")),
    f"org.apache.flink:flink-table-api-java-bridge:{_FLINK}",
    "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
)
# Kryo, which keeps the state of FlinkSink, looks into classes of Java itself.
_OPENED = ("java.lang", "java.nio", "java.time", "java.util", "java.util.concurrent")


class FlinkError(Exception):
    """What a job or a command failed with, its causes in one line."""


@dataclass(frozen=True)
class FlinkJobs:
    """Jobs by the names that a test gives them; each writes rows of ``id BIGINT, name STRING`` to one table."""

    process: subprocess.Popen[str]
    log: Path

    def start(self, job: str, sink: str, table: str, *, upsert: bool = False, restored_from: str = "") -> str:
        """Start a job and return Flink's id of it; it has committed what its checkpoint held.

        :param sink: ``FlinkSink``, ``IcebergSink`` or ``DynamicIcebergSink``.
        :param restored_from: a checkpoint or savepoint.
        """
        return self._ask("start", job, sink, table, "upsert" if upsert else "append", restored_from)

    def write(self, job: str, rows: Mapping[int, str]) -> None:
        """Give rows to a job."""
        self._ask("write", job, ",".join(f"{id_}:{name}" for id_, name in rows.items()))

    def checkpoint(self, job: str) -> str:
        """Take a checkpoint, wait until it is committed to the table, and return it."""
        return self._ask("checkpoint", job)

    def kill(self, job: str) -> None:
        """End a job; its checkpoints stay."""
        self._ask("kill", job)

    def stop(self, job: str) -> str:
        """Stop a job with a savepoint, and return it."""
        return self._ask("stop", job)

    def _ask(self, *words: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        outcome, _, said = self.process.stdout.readline().rstrip("\n").partition("\t")
        if outcome != "ok":
            raise FlinkError(said or f"the process ended:\n{self.log.read_text()[-4000:]}")
        return said


@contextmanager
def flink_jobs(folder: Path, catalog: Mapping[str, str]) -> Iterator[FlinkJobs]:
    """Run a mini cluster.

    :param folder: not there yet; classes, checkpoints and its log.
    :param catalog: the name and the properties of a JDBC catalog.
    """
    java, class_path = java_with_compiler(), _class_path()
    for name in ("classes", "checkpoints"):
        (folder / name).mkdir(parents=True)
    compiler = Path(java).resolve().with_name("javac")
    compilation = [str(compiler), "-nowarn", "-cp", class_path, "-d", str(folder / "classes"), str(_SOURCE)]
    done = subprocess.run(compilation, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    properties, log = folder / "catalog.properties", folder / "flink.log"
    properties.write_text("".join(f"{name}={value}\n" for name, value in catalog.items()))
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    command = [java, "-Xmx512m", *opened, "-cp", f"{folder / 'classes'}:{class_path}", "FlinkJobs"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, str(folder / "checkpoints"), str(properties)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said == "ok\n", f"Flink did not start:\n{log.read_text()[-4000:]}"
            yield FlinkJobs(process, log)
        finally:
            process.kill()
            process.wait()


def _class_path() -> str:
    folder = Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "flink-jars"
    folder.mkdir(parents=True, exist_ok=True)
    fetch = [sys.executable, str(REPOSITORY / "scripts" / "fetch_jars.py"), str(folder), "--lock", str(_LOCK)]
    done = subprocess.run([*fetch, "--resolve", *_ROOTS], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    # Iceberg's runtime for Flink comes without Hadoop's classes and without a logger; Spark's jars have both.
    spark = Path(pyspark.__file__).parent / "jars"
    of_spark = [path for name in ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*") for path in spark.glob(name)]
    drivers = [path for path in lake_jars().split(",") if "sqlite" in path]
    return os.pathsep.join([f"{folder}/*", *map(str, of_spark), *drivers])
