"""Actions of workers, triggerers and drivers on a table, each within a bound, and their outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from airflow.sdk.exceptions import AirflowException

from airflow_lake_provider.contracts.applied.applied_history import applied_runs
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import LakeProviderError, error_class
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.planning.early_refusals import (
    refuse_compaction,
    refuse_incremental,
    refuse_row_change,
    refuse_upsert,
)
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger, LakeSnapshotTrigger
from tests.soak.bounded import Hang, bounded
from tests.soak.hostile_lake import CATALOG, NAMESPACE, HostileLake, Row

WORKER_SECONDS = 20.0
DRIVER_SECONDS = 150.0
# A watcher waits out what may pass; the loop that it shares with all others may not wait that long.
WATCH_SECONDS = 1.0
LONGEST_BEAT = 2.0
LONG_AGO = "2020-01-01T00:00:00+00:00"
WORKER_ACTIONS = ("sensor", "watcher", "trigger", "check", "plans")
DRIVER_ACTIONS = ("upsert", "delete rows", "incremental", "compaction", "expiry")
DONE, REFUSED, RETRIED, WAITS = "done", "refused", "to be retried", "waits"
HANG, RAW, WRONG, DAMAGE = "HANG", "RAW ERROR", "WRONG ROWS", "DAMAGE"
FAULTS = (HANG, RAW, WRONG, DAMAGE)


class _LoopStoodStillError(Exception):
    """A watcher kept the loop from everybody else."""


@dataclass(frozen=True)
class Result:
    """What came of one action."""

    action: str
    outcome: str
    told: str = ""

    def __str__(self) -> str:
        return f"{self.action}: {self.outcome}{f' ({self.told})' if self.told else ''}"


def attempt(action: str, work: Callable[[], str], seconds: float) -> Result:
    """Do the work within its bound and tell what came of it."""
    try:
        with bounded(seconds):
            outcome = work()
    except Hang as hang:
        return Result(action, HANG, str(hang))
    except _LoopStoodStillError as stood:
        return Result(action, HANG, str(stood))
    except LakeProviderError as error:
        return Result(action, RETRIED if error.retry_may_help else REFUSED, _shown(error))
    # Whatever else comes out is what is looked for.
    except Exception as error:  # noqa: BLE001
        return Result(action, RAW, _shown(error))
    return Result(action, outcome)


def _shown(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:250]


@dataclass
class Worker:
    """What workers and triggerers do with a table of a connection."""

    lake_conn_id: str
    table: str

    def play(self, action: str) -> Result:
        """Do one of ``WORKER_ACTIONS``."""
        work: dict[str, Callable[[], str]] = {
            "sensor": self._poke,
            "watcher": lambda: asyncio.run(self._beside_a_beat(self._watch())),
            "trigger": lambda: asyncio.run(self._beside_a_beat(self._trigger())),
            "check": self._check,
            "plans": self._plan,
        }
        return attempt(action, work[action], WORKER_SECONDS)

    def _poke(self) -> str:
        sensor = LakeSnapshotSensor(
            task_id="wait", table=self.table, lake_conn_id=self.lake_conn_id, since=LONG_AGO, deferrable=False
        )
        return DONE if sensor.poke({}).is_done else WAITS

    async def _watch(self) -> str:
        trigger = LakeSnapshotEventTrigger(
            table=self.table, asset_name="table", lake_conn_id=self.lake_conn_id, poll_interval=0.2
        )
        async with aclosing(trigger.events(None)) as events:
            async for _, stored in events:
                stored.confirm()
                return DONE
        return WAITS

    async def _trigger(self) -> str:
        trigger = LakeSnapshotTrigger(
            table=self.table, lake_conn_id=self.lake_conn_id, since=LONG_AGO, poll_interval=0.2
        )
        async with aclosing(trigger.run()) as events:
            async for event in events:
                told = event.payload
                if told["status"] == "success":
                    return DONE
                known = error_class(told["error"])
                if known.__name__ != told["error"]:
                    raise AirflowException(f"{told['error']}: {told['message']}")
                raise known(told["message"])
        return WAITS

    async def _beside_a_beat(self, work: Any) -> str:
        """Wait for the work for a time, beside a watcher of another table: it may not be kept waiting."""
        longest, ended = 0.0, False

        async def beat() -> None:
            nonlocal longest
            before = time.monotonic()
            while not ended:
                await asyncio.sleep(0.02)
                longest, before = max(longest, time.monotonic() - before), time.monotonic()

        beating = asyncio.create_task(beat())
        try:
            outcome: str = await asyncio.wait_for(work, WATCH_SECONDS)
        except TimeoutError:
            outcome = WAITS
        finally:
            ended = True
            await beating
        if longest > LONGEST_BEAT:
            raise _LoopStoodStillError(f"the loop stood still for {longest:.1f} s")
        return outcome

    def _check(self) -> str:
        LakeCatalogHook(self.lake_conn_id).loaded(self.table).check(["id"])
        return DONE

    def _plan(self) -> str:
        """Refuse from metadata, and look for commits of a lost report, as operators do before and after a job."""
        table = LakeCatalogHook(self.lake_conn_id).loaded(self.table)
        jobs = Jobs.of(self.table, RunIdentity.of("dag", "plans", "task", "-1"))
        applied_runs(table.facts, jobs.run.who)
        refused = 0
        refusals: Sequence[Callable[[], None]] = (
            lambda: refuse_upsert(jobs.upsert(None), table, None),
            lambda: refuse_row_change(jobs.delete_rows(), table),
            lambda: refuse_compaction(jobs.compaction(CompactionLevel.AUTO), table),
            lambda: refuse_incremental(jobs.incremental("1"), None, table),
        )
        for refuse in refusals:
            try:
                refuse()
            except LakeProviderError:
                refused += 1
        return REFUSED if refused else DONE


@dataclass(frozen=True)
class Jobs:
    """Specs of the five jobs."""

    table: str
    run: RunIdentity

    @classmethod
    def of(cls, table: str, run: RunIdentity) -> Jobs:
        """Return the jobs of one run on a table."""
        return cls(table, run)

    @property
    def _frame(self) -> dict[str, Any]:
        return {"catalog": CATALOG, "table": self.table, "run": self.run}

    def upsert(self, source: Files | None) -> UpsertSpec:
        """Apply the batch."""
        return UpsertSpec(**self._frame, source=source or Files("/nowhere", format="json", name="inbox"), keys=("id",))

    def delete_rows(self) -> DeleteRowsSpec:
        """Delete one row."""
        return DeleteRowsSpec(**self._frame, where="id = 1")

    def compaction(self, level: CompactionLevel) -> CompactionSpec:
        """Rewrite files."""
        return CompactionSpec(**self._frame, level=level, min_input_files=2)

    def expiry(self) -> SnapshotExpirySpec:
        """Forget all snapshots but the newest."""
        soon = datetime.now(UTC) + timedelta(seconds=1)
        return SnapshotExpirySpec(**self._frame, expire_before=soon, expire_stage_branches_before=soon)

    def incremental(self, head: str) -> IncrementalSpec:
        """Copy what changed into another table."""
        return IncrementalSpec(
            **{**self._frame, "table": f"{NAMESPACE}.copy"},
            source=self.table,
            consumer="soak",
            keys=("id",),
            source_keys=("id",),
            to_snapshot=head,
            query="SELECT id, name, n, _change_type FROM changes",
        )


@dataclass
class Driver:
    """What a driver does with a table, compared with plain Python's idea of it."""

    lake: HostileLake
    name: str
    runs: Iterator[int] = field(default_factory=count)

    def play(self, action: str, level: CompactionLevel) -> Result:
        """Do one of ``DRIVER_ACTIONS``; rows are compared where PyIceberg could read them before."""
        before, copied = self.lake.rows(self.name), self.lake.rows("copy")
        spec = self._spec(action, level)
        result = attempt(action, lambda: self._outcome(spec), DRIVER_SECONDS)
        if result.outcome == HANG:
            self.lake.spark.sparkContext.cancelAllJobs()
            return result
        return self._compared(result, before, copied)

    def _spec(self, action: str, level: CompactionLevel) -> JobSpec:
        run = RunIdentity.of("dag", f"run {next(self.runs)} {time.monotonic_ns()}", "task", "-1")
        jobs = Jobs.of(f"{NAMESPACE}.{self.name}", run)
        match action:
            case "upsert":
                return jobs.upsert(self.lake.batch())
            case "delete rows":
                return jobs.delete_rows()
            case "compaction":
                return jobs.compaction(level)
            case "expiry":
                return jobs.expiry()
        return jobs.incremental(self._head())

    def _head(self) -> str:
        try:
            return str(self.lake.metadata(self.name)["current-snapshot-id"])
        except (OSError, ValueError, KeyError, TypeError):
            return "1"

    def _outcome(self, spec: JobSpec) -> str:
        report: JobReport = dispatch_action(self.lake.spark, spec, _Silent())
        return f"{DONE}, {report.outcome.value}"

    def _compared(self, result: Result, before: list[Row] | None, copied: list[Row] | None) -> Result:
        if before is None or len({row[0] for row in before}) < len(before):
            return result
        after = self.lake.rows(self.name)
        allowed = [before, expected(result.action, before)] if result.action != "incremental" else [before]
        if after not in allowed:
            told = "cannot be read" if after is None else f"{len(before)} rows before, {len(after)} after"
            return Result(result.action, WRONG, f"{result.outcome} {result.told}, but the table {told}")
        if result.outcome == f"{DONE}, applied" and result.action == "incremental":
            copy = self.lake.rows("copy")
            if copy not in (before, copied):
                return Result(result.action, WRONG, f"the copy has {len(copy or ())} rows of {len(before)}")
        if result.outcome == f"{DONE}, applied" and after != allowed[-1]:
            return Result(result.action, WRONG, "applied, and the rows are as before")
        return result


def expected(action: str, rows: list[Row]) -> list[Row]:
    """Return the rows after an action, in plain Python."""
    keyed = {row[0]: row for row in rows}
    if action == "upsert":
        keyed |= {2: (2, "changed", 20), 1000: (1000, "new", 7)}
    elif action == "delete rows":
        keyed.pop(1, None)
    return sorted(keyed.values(), key=repr)


class _Silent(Progress):
    def say(self, *arguments: Any, **named: Any) -> None:
        """Say nothing: three hundred logs are read by nobody."""
