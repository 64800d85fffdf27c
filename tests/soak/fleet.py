"""A fleet is maintained again and again beside two writers: no batch fails, files get fewer, no row is lost.

One writer upserts without a pause. Another one commits a checkpoint every ten seconds as Flink does, with deletes by
key and by position. Beside their tables are a broken one, one of version 1, one whose partition spec evolved, one of
many partitions, one with old rows, one along a curve, and two that share a location. Every action comes through.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, TimestamptzType

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.reports.history_entry import CONFLICT, DONE, FAILED
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.maintenance.outcomes import TaskOutcome
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.session.open_session import open_session
from tests.run_maintenance import run_maintenance
from tests.soak.appends import OtherWriter
from tests.soak.batches import Batch, Inbox, Model, random_changes
from tests.soak.driver import Driver
from tests.soak.java_class import java_class
from tests.soak.lake import CATALOG, NAMESPACE, Lake

SECONDS, PARTITIONS, CHECKPOINT_SECONDS = 1800, 5_000, 10.0
_CHECKPOINT = Path(__file__).with_name("FlinkCheckpoint.java")
_STREAM = TableName.parse(f"{NAMESPACE}.stream")
_SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "n", LongType()))
_BY_N = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "n"))
# A table that changes all the time has hot files only. A look for orphans lists a table, so that few have one.
POLICIES = {
    "*": {
        "compaction": {"hot_within": "PT1S", "every": "PT1S", "min_input_files": 3},
        "manifests": {"mergeable": 3},
    },
    f"{NAMESPACE}.evolved": {"tags": {"daily": 2}, "statistics": {"every": "PT1S"}},
    f"{NAMESPACE}.orders": {"orphans": {"mode": "dry-run", "every": "PT1S"}, "compaction": {"verify": "rows"}},
    f"{NAMESPACE}.v1": {"orphans": {"mode": "delete", "every": "PT1S"}},
    f"{NAMESPACE}.shared_*": {"orphans": {"mode": "delete", "every": "PT1S"}},
    f"{NAMESPACE}.aged": {"row_expiry": {"column": "at", "keep": "P30D", "max_share": 1}},
    f"{NAMESPACE}.curve": {"compaction": {"strategy": "zorder", "sort_by": ["id", "n"], "level": "full"}},
}
# What has to come through at least once. Compactions of the tables that are written to have to do so meanwhile.
DUE = (
    *(("many", "compaction"), ("curve", "compaction"), ("evolved", "create-tag"), ("evolved", "compute-statistics")),
    *(("aged", "expire-rows"), ("v1", "remove-orphans")),
)
APPLICATION = {
    "conf": {"spark.driver.memory": "1500m", "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
}


@dataclass
class FleetSoak:
    """The lake, the rows that its tables must have, and what became of the tasks of all runs.

    :param partitions: of the table of many.
    :param outcomes: by table, action and outcome.
    :param groups: file groups that compactions have rewritten, by table.
    :param by_arrow: those of them that Arrow has rewritten.
    :param left_to_spark: the others, by table and reason.
    """

    lake: Lake
    seed: int
    partitions: int
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    by_arrow: Counter[str] = field(default_factory=Counter)
    left_to_spark: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: int = 0
    failed: list[str] = field(default_factory=list)
    orders: Model = field(default_factory=dict)
    stream: dict[int, int] = field(default_factory=dict)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def play(self, seconds: float) -> dict[str, Any]:
        """Maintain beside the writers for some time, and once more when they have ended; return what was seen."""
        self._make_tables()
        serve = "tests.soak.fleet:serve_checkpoints"
        with Driver(self.lake, "upserts") as upserts, Driver(self.lake, "checkpoints", serve) as checkpoints:
            writers = [
                OtherWriter(self._upserts(upserts), every=0),
                OtherWriter(self._checkpoints(checkpoints), CHECKPOINT_SECONDS),
            ]
            with writers[0], writers[1]:
                self._wait_for_first(writers)
                started = time.monotonic()
                # The first runs of a slow machine may find nothing due of a table.
                while time.monotonic() - started < (seconds if all(self._compacted().values()) else 4 * seconds):
                    if any(each.errors for each in writers):
                        break
                    self._maintain()
                beside = self._compacted()
            for writer in writers:
                self.failed += [f"a batch failed: {error}" for error in writer.errors]
        self.failed += [
            f"no compaction of {name} came through meanwhile" for name, count in beside.items() if not count
        ]
        if not self.failed:
            # What was changed a second ago is hot, and left alone.
            time.sleep(2)
            self._maintain()
            self._check()
        print(*self.failed, sep="\n", file=sys.stderr)
        return {
            "runs": self.runs,
            "upserts": writers[0].committed,
            "checkpoints": writers[1].committed,
            "outcomes": {" ".join(key): count for key, count in sorted(self.outcomes.items())},
            "groups": dict(self.groups),
            "by_arrow": dict(self.by_arrow),
            "left_to_spark": {": ".join(key): count for key, count in sorted(self.left_to_spark.items())},
            "arrow_share": self.arrow_share,
            "failed": self.failed,
        }

    def _compacted(self) -> dict[str, int]:
        return {name: self.outcomes[name, "compaction", DONE] for name in ("orders", "stream")}

    @property
    def arrow_share(self) -> float:
        """Share of the tables that took Arrow, of those whose files were rewritten."""
        return round(len(+self.by_arrow) / max(1, len(+self.groups)), 3)

    def _wait_for_first(self, writers: list[OtherWriter]) -> None:
        while not all(each.committed for each in writers) and not any(each.errors for each in writers):
            time.sleep(0.5)

    def _make_tables(self) -> None:
        catalog = self.lake.catalog()
        catalog.create_namespace(NAMESPACE)
        plain = {"format-version": "2"}
        for name, properties in {"v1": {"format-version": "1"}, "evolved": plain, "broken": plain}.items():
            self._append(catalog.create_table(f"{NAMESPACE}.{name}", _SCHEMA, properties=properties), 8)
        evolved = catalog.load_table(f"{NAMESPACE}.evolved")
        with evolved.update_spec() as update:
            update.add_identity("n")
        self._append(evolved, 8)
        self._append(catalog.create_table(f"{NAMESPACE}.curve", _SCHEMA, properties=plain), 8)
        many = catalog.create_table(f"{NAMESPACE}.many", _SCHEMA, partition_spec=_BY_N, properties=plain)
        rows = [{"id": number, "n": number % self.partitions} for number in range(2 * self.partitions)]
        # As many files in each partition as make a merge due.
        for _ in range(3):
            many.append(pa.Table.from_pylist(rows, schema=_SCHEMA.as_arrow()))
        self.others["many"] = 3 * rows
        self._make_aged(catalog)
        for name in ("shared_a", "shared_b"):
            place = f"{self.lake.home.as_uri()}/warehouse/{NAMESPACE}/shared"
            self._append(catalog.create_table(f"{NAMESPACE}.{name}", _SCHEMA, location=place, properties=plain), 6)
        self.orphans = {name: self._orphan(catalog.load_table(f"{NAMESPACE}.{name}")) for name in ("v1", "shared_a")}
        Path(urlsplit(catalog.load_table(f"{NAMESPACE}.broken").metadata_location).path).unlink()
        del self.others["broken"]

    def _orphan(self, table: Table) -> Path:
        """Put an old file into a table's folder that nothing names."""
        orphan = Path(urlsplit(table.location()).path) / "data" / "orphan.parquet"
        orphan.write_bytes(b"orphan")
        os.utime(orphan, (1_000_000_000, 1_000_000_000))
        return orphan

    def _make_aged(self, catalog: Catalog) -> None:
        """Make a table with old rows in files of their own, and in files of both."""
        now = datetime.now(UTC)
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
        aged = catalog.create_table(f"{NAMESPACE}.aged", schema, properties={"format-version": "2"})
        self.others["aged"] = []
        for number, ages in enumerate(((90, 80), (90, 1), (2, 1))):
            rows = [{"id": number, "at": now - timedelta(days=age)} for age in ages]
            aged.append(pa.Table.from_pylist(rows, schema=schema.as_arrow()))
            self.others["aged"] += [row for row, age in zip(rows, ages, strict=True) if age < 30]

    def _append(self, table: Table, files: int) -> None:
        kept = self.others.setdefault(table.name()[-1], [])
        for number in range(files):
            rows = [{"id": len(kept) + place, "n": number % 2} for place in range(20)]
            table.append(pa.Table.from_pylist(rows, schema=_SCHEMA.as_arrow()))
            kept += rows

    def _upserts(self, driver: Driver) -> Callable[[int], None]:
        inbox, draw = Inbox(self.lake.home / "inbox"), Random(self.seed)

        def upsert(number: int) -> None:
            changes = random_changes(draw, f"batch {number}", number)
            inbox.arrive(str(number), changes)
            spec = UpsertSpec(
                catalog=CATALOG,
                table=f"{NAMESPACE}.orders",
                run=RunIdentity.of("fleet", str(number), "upsert", "-1"),
                source=inbox.source(),
                keys=("id",),
                delete_when="op = 'd'",
                schema_contract=SchemaContract(exclude_columns=("op",)),
            )
            report = driver.run(spec)
            if isinstance(report, JobFailure) or report.outcome is not Outcome.APPLIED:
                raise RuntimeError(f"upsert {number}: {report}")
            Batch(tuple(changes)).apply_to(self.orders)

        return upsert

    def _checkpoints(self, driver: Driver) -> Callable[[int], None]:
        draw = Random(self.seed + 1)

        def commit(number: int) -> None:
            # Each third one has deletes alone: apache/iceberg#10312 brought such rows back.
            gone = 1.0 if number % 3 == 2 else 0.1
            changes = [[draw.randrange(500), number * 1000 + place, draw.random() < gone] for place in range(100)]
            driver.sql(json.dumps({"checkpoint": number, "changes": changes}))
            for key, value, is_gone in changes:
                if is_gone:
                    self.stream.pop(key, None)
                else:
                    self.stream[key] = value

        return commit

    @cached_property
    def _policy_file(self) -> Path:
        file = self.lake.home / "lake_policy.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"tables": POLICIES}))
        return file

    def _maintain(self) -> None:
        outcomes = run_maintenance(
            f"{NAMESPACE}.*", f"run {self.runs}", plan={"policy_file": str(self._policy_file)}, **APPLICATION
        )
        self.runs += 1
        for each in outcomes:
            name = each.table.rpartition(".")[2]
            self.outcomes[name, each.action, each.outcome] += 1
            self.groups[name] += each.report.get("groups_rewritten", 0)
            self.by_arrow[name] += each.report.get("groups_by_arrow", 0)
            self.left_to_spark.update({(name, why): n for why, n in each.report.get("left_to_spark", {}).items()})
            if each.outcome == FAILED and name != "broken":
                self.failed.append(f"{each}: {each.reason}")
        say(self.runs, outcomes)

    def _check(self) -> None:
        """Compare rows with the dicts, by PyIceberg, and look whether maintenance got anywhere."""
        catalog = self.lake.catalog()
        stream = {key: (value,) for key, value in self.stream.items()}
        for name, expected in {"orders": self.orders, "stream": stream}.items():
            if self.lake.rows(f"{NAMESPACE}.{name}") != expected:
                self.failed.append(f"{name} has other rows than its writer gave it")
        for name, action in DUE:
            if not self.outcomes[name, action, DONE]:
                self.failed.append(f"no {action} of {name} came through")
        for name, rows in self.others.items():
            found = catalog.load_table(f"{NAMESPACE}.{name}").scan().to_arrow().to_pylist()
            if _sorted(found) != _sorted(rows):
                self.failed.append(f"{name} has other rows than before")
        if [name for name, path in self.orphans.items() if path.exists()] != ["shared_a"]:
            self.failed.append("orphan files were left, or removed from a location that two tables share")
        if self.outcomes["broken", "plan", FAILED] != self.runs:
            self.failed.append("the broken table was not reported by each run")


def _sorted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def say(number: int, outcomes: list[TaskOutcome]) -> None:
    """Print what became of a run."""
    counts = Counter(each.outcome for each in outcomes)
    conflicts = [each.table for each in outcomes if each.outcome == CONFLICT]
    print(f"run {number}: {dict(counts)} {conflicts or ''}", file=sys.stderr, flush=True)


def serve_checkpoints() -> None:
    """Commit a checkpoint for each line of the standard input, in a driver of its own; it makes the table."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    spark, _ = open_session()
    checkpoint = java_class(spark, _CHECKPOINT, "lake.soak.FlinkCheckpoint")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {CATALOG}.{_STREAM} (id BIGINT, n BIGINT) TBLPROPERTIES ('format-version'='2')"
    )
    gateway: Any = spark.sparkContext._gateway
    for line in sys.stdin:
        request = json.loads(json.loads(line)["sql"])
        ids, values, gone = (
            gateway.new_array(kind, len(request["changes"]))
            for kind in (gateway.jvm.long, gateway.jvm.long, gateway.jvm.boolean)
        )
        for place, change in enumerate(request["changes"]):
            ids[place], values[place], gone[place] = change
        try:
            # A fresh handle, as Flink's committer has it.
            checkpoint.commit(IcebergTable(spark, CATALOG, _STREAM).java, ids, values, gone, request["checkpoint"])
            answer = "{}"
        # Whatever it is, the asking side has to see it.
        except Exception as error:  # noqa: BLE001
            answer = json.dumps({"failure": str(error)})
        answers.write(answer + "\n")


def soak(home: Path, seed: int, seconds: float = SECONDS, partitions: int = PARTITIONS) -> dict[str, Any]:
    """Play in a folder, and return what was seen."""
    lake = Lake.at(home / "lake")
    extra = {"type": "sql", **{name: lake.connection.pyiceberg_properties()[name] for name in ("uri", "warehouse")}}
    os.environ["AIRFLOW_CONN_LAKE_DEFAULT"] = json.dumps({"conn_type": "iceberg", "extra": extra})
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[1]"})
    os.environ["AIRFLOW__LAKE__JOB_DIRECTORY"] = str(home / "jobs")
    started = time.monotonic()
    found = FleetSoak(lake, seed, partitions).play(seconds)
    return {"soak": "fleet", "seed": seed, **found, "seconds": round(time.monotonic() - started)}


def main() -> None:
    """Play one seed and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), options.seed, options.seconds, options.partitions)
    print(json.dumps(found))
    sys.exit(bool(found["failed"]))


if __name__ == "__main__":
    main()
