"""Workers treat tables of a format as its declaration says; without a part for workers they refuse it by name.

The connection's catalog would be a file of SQLite: nobody opens it for a format that is not Iceberg.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Asset

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities, Support
from airflow_lake_provider.contracts.capability_names import CAPABILITIES
from airflow_lake_provider.contracts.errors import (
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome, UpsertReport
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators.asset_events import announce
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.lost_report import LostReport
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotTrigger
from tests.tiny_format import TINY
from tests.unit.cli.lake_command import run_lake
from tests.unit.operators.run_of_tests import NO_SPARK

if TYPE_CHECKING:
    from airflow.sdk import Context

TABLE = "shop.orders"
COLUMNS = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}]}
# What a table of a format can be asked for here, and the name by which it is asked.
Commit = Callable[..., str]


@pytest.fixture
def tiny(tiny_connection: str, tmp_path: Path) -> Iterator[FormatCapabilities]:
    """A format of one entry, which the connection names."""
    yield TINY
    assert not (tmp_path / "catalog.db").exists()


@pytest.fixture
def without_worker(tiny: FormatCapabilities, monkeypatch: pytest.MonkeyPatch) -> FormatCapabilities:
    """The format as one that can do everything, in Spark alone."""
    found = replace(tiny, worker="", declared={name: Support() for name in CAPABILITIES})
    monkeypatch.setitem(FORMATS, tiny.name, found)
    return found


@pytest.fixture
def commit(tmp_path: Path) -> Commit:
    """Write the head of ``shop.orders`` as its driver does, with one more commit, and return its snapshot."""

    def run(**properties: str) -> str:
        folder = tmp_path / "warehouse" / TABLE
        folder.mkdir(parents=True, exist_ok=True)
        # As no number can be read.
        version = f"v {time.time_ns()}@7"
        head = {"version": version, "rows": "", "columns": json.dumps(COLUMNS), "properties": properties}
        (folder / f"head-{len(list(folder.glob('head-*.json'))):06}.json").write_text(json.dumps(head))
        return version

    return run


def upsert(**arguments: Any) -> LakeUpsertOperator:
    return LakeUpsertOperator(task_id="t", table=TABLE, source="a.csv", keys=["id"], **NO_SPARK, **arguments)


def refusal(run: Callable[[], object]) -> Exception:
    with pytest.raises((LakeProviderError, SystemExit)) as refused:
        run()
    found: Any = refused.value
    return found


def sensor(**arguments: Any) -> LakeSnapshotSensor:
    return LakeSnapshotSensor(task_id="wait", table=TABLE, poke_interval=0.05, timeout=0.3, **arguments)


def checked(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    """Return what ``airflow lake check`` prints, by use."""
    check()
    return {row["use"]: row for row in json.loads(capsys.readouterr().out)}


def check() -> None:
    run_lake("check", TABLE, "--output", "json")


@pytest.mark.usefixtures("tiny")
def test_a_sensor_sees_a_commit_to_a_table_of_another_format(commit: Commit) -> None:
    first = commit()
    second = commit()
    found = sensor(since=f"snapshot:{first}").execute({})
    assert found["snapshot_id"] == second


@pytest.mark.usefixtures("tiny")
async def test_a_trigger_sees_a_commit_to_a_table_of_another_format(commit: Commit) -> None:
    first = commit()
    second = commit()
    async with aclosing(
        LakeSnapshotTrigger(table=TABLE, since=f"snapshot:{first}", poll_interval=0.05).run()
    ) as events:
        event = await anext(events)
    assert event.payload["payload"]["snapshot_id"] == second


def test_the_check_of_a_table_says_what_its_format_declares(
    tiny: FormatCapabilities, commit: Commit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    commit()
    found = checked(capsys)
    assert found.keys() == CAPABILITIES.keys()
    possible = {use for use, row in found.items() if row["possible"] == "yes"}
    assert possible == {name for name, each in tiny.declared.items() if isinstance(each, Support)}
    assert found["strategy-merge"]["reason"] == "it has no statements"


@pytest.mark.usefixtures("tiny")
def test_an_upsert_is_looked_at_by_its_own_format_before_spark(
    commit: Commit, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = refusal(lambda: upsert(create=False).execute(context))
    assert isinstance(missing, MissingTableError)
    commit()
    started = refusal(lambda: upsert().execute(context))
    assert isinstance(started, InvalidConnectionError)
    assert "'nowhere' does not exist" in str(started)
    why = "its owner has closed it"
    monkeypatch.setattr("tests.tiny_catalog.TinyLoadedTable.unfit_for", lambda *_: why)
    assert str(refusal(lambda: upsert().execute(context))) == f"{TABLE}: {why}"


@pytest.mark.usefixtures("tiny")
def test_a_lost_report_is_found_in_a_table_of_another_format(commit: Commit, context: Context) -> None:
    spec = upsert().build_spec(context)
    commit()
    before = LostReport.before(LakeCatalogHook(), spec, "main")
    key = spec.run.run_key(spec.digest_text(), ())
    commit(**RecentRunKeys().add(key, datetime.now(UTC)).to_properties())
    assert before.resolve(JobFailedError("lost")).run_key == key


@pytest.mark.usefixtures("tiny")
def test_pyicebergs_catalog_of_tables_of_another_format_is_refused_by_name(commit: Commit) -> None:
    commit()
    hook = LakeCatalogHook()
    for asked in (lambda: hook.catalog, hook.get_conn, lambda: hook.load_table(TABLE)):
        with pytest.raises(UnsupportedError, match="have format 'tiny', which PyIceberg does not read; use loaded"):
            asked()
    assert hook.test_connection() == (True, "The sql catalog 'lake_default' answered: 1 namespaces.")
    assert hook.tables_named_like("shop.order") == [TABLE]


NEEDS_A_WORKER: dict[str, Callable[[], LakeJobOperator[Any]]] = {
    "rollback": lambda: LakeRollbackOperator(task_id="t", table=TABLE, tag="x"),
    "publication": lambda: LakePublishBranchOperator(task_id="t", table=TABLE, branch="x"),
    "tag": lambda: LakeCreateTagOperator(task_id="t", table=TABLE, tag="x"),
    "no tag": lambda: LakeDropTagOperator(task_id="t", table=TABLE, tag="x"),
    "upgrade": lambda: LakeTableUpgradeOperator(task_id="t", table=TABLE),
    "dry compaction": lambda: LakeCompactionOperator(task_id="t", table=TABLE, dry_run=True, **NO_SPARK),
    "dry expiry": lambda: LakeSnapshotExpiryOperator(
        task_id="t", table=TABLE, older_than="P7D", dry_run=True, **NO_SPARK
    ),
    "increment": lambda: LakeIncrementalOperator(
        task_id="t", target="mart.x", source=TABLE, consumer="c", keys=["id"], query="SELECT * FROM changes", **NO_SPARK
    ),
}
REFUSED = "table format 'tiny' has no part for workers, .*name a class in 'worker' of the format's declaration"


@pytest.mark.usefixtures("without_worker")
@pytest.mark.parametrize("make", NEEDS_A_WORKER.values(), ids=NEEDS_A_WORKER.keys())
def test_what_a_worker_plans_is_refused_for_a_format_without_a_part_for_workers(
    make: Callable[[], LakeJobOperator[Any]], context: Context
) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED):
        make().execute(context)


@pytest.mark.usefixtures("without_worker")
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_on_a_format_without_a_part_for_workers_fails_at_its_first_look(*, deferrable: bool) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED):
        sensor(since="1", deferrable=deferrable).execute({})


@pytest.mark.usefixtures("without_worker")
async def test_a_trigger_on_a_format_without_a_part_for_workers_ends_with_the_refusal() -> None:
    async with aclosing(LakeSnapshotTrigger(table=TABLE, since="1", poll_interval=0.05).run()) as events:
        event = await anext(events)
    assert event.payload["error"] == "UnsupportedError"
    assert "table format 'tiny' has no part for workers" in event.payload["message"]


@pytest.mark.usefixtures("without_worker")
def test_the_check_of_a_format_without_a_part_for_workers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    with pytest.raises(SystemExit, match=f"UnsupportedError: connection 'lake_default': {REFUSED}"):
        check()


@pytest.mark.usefixtures("without_worker")
@pytest.mark.parametrize(
    "make",
    [upsert, lambda: LakeCompactionOperator(task_id="t", table=TABLE, **NO_SPARK)],
    ids=["upsert", "compaction"],
)
def test_what_spark_does_goes_to_spark_unseen_where_the_format_has_no_part_for_workers(
    make: Callable[[], LakeJobOperator[Any]], context: Context
) -> None:
    started = refusal(lambda: make().execute(context))
    assert isinstance(started, InvalidConnectionError)
    assert "'nowhere' does not exist" in str(started)


MAINTENANCE: list[Callable[..., LakeJobOperator[Any]]] = [
    lambda **given: LakeCompactionOperator(task_id="t", table=TABLE, **NO_SPARK, **given),
    lambda **given: LakeSnapshotExpiryOperator(task_id="t", table=TABLE, older_than="P7D", **NO_SPARK, **given),
]


@pytest.mark.parametrize("make", MAINTENANCE, ids=["compaction", "expiry"])
def test_maintenance_that_no_rule_of_workers_plans_goes_to_spark_and_has_no_dry_run(
    tiny: FormatCapabilities,
    commit: Commit,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., LakeJobOperator[Any]],
) -> None:
    able = replace(tiny, declared={name: Support() for name in CAPABILITIES})
    monkeypatch.setitem(FORMATS, tiny.name, able)
    monkeypatch.setattr("tests.tiny_catalog.TinyLoadedTable.capabilities", able)
    commit()
    started = refusal(lambda: make().execute(context))
    assert "'nowhere' does not exist" in str(started)
    with pytest.raises(UnsupportedError, match=rf"{TABLE}: tables of format 'tiny' are planned for .* without dry_run"):
        make(dry_run=True).execute(context)


@pytest.mark.usefixtures("without_worker")
def test_a_lost_report_stays_lost_where_the_format_has_no_part_for_workers(context: Context) -> None:
    lost = JobFailedError("there is no report")
    before = LostReport.before(LakeCatalogHook(), upsert().build_spec(context), "main")
    assert refusal(lambda: before.resolve(lost)) is lost


@pytest.mark.usefixtures("without_worker")
def test_a_commit_has_an_event_also_where_the_format_has_no_part_for_workers(context: Context) -> None:
    asset = Asset("orders", uri="iceberg://lake_default/shop/orders")
    operator = upsert(outlets=[asset])
    report: JobReport = UpsertReport(
        table=TABLE, outcome=Outcome.APPLIED, reason="", run_key="k", committed=("7",), attempts=1
    )
    announce(operator, {(TABLE, "main"): [report]}, context)
    assert operator.outlets == [asset]
    assert context["outlet_events"][asset].extra == {
        "table": TABLE,
        "branch": "main",
        "snapshot_id": "7",
        "previous_snapshot_id": None,
        "run_key": "k",
    }
