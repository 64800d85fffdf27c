"""Tables whose metadata a stranger has changed, read by everything that looks at them without Spark."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import BrokenMetadataError, LakeProviderError
from airflow_lake_provider.contracts.table_facts import Reference, Snapshot, ancestors
from airflow_lake_provider.iceberg.snapshot_retention import RetentionRequest, work_out
from airflow_lake_provider.tables.detect_new_snapshot import TableHead, decide
from airflow_lake_provider.tables.watermark import Since

FAR = 2**63 - 1


def tamper(table: Table, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the catalog name a changed copy of the table's metadata."""
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    changed = path.with_name(f"9{path.name}")
    changed.write_text(json.dumps(metadata))
    database = str(table.catalog.properties["uri"]).removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{changed}",))


def at(*path: str | int, to: object) -> Callable[[dict[str, Any]], object]:
    """Return a change of one value of the metadata."""

    def change(metadata: Any) -> None:
        for step in path[:-1]:
            metadata = metadata[step]
        metadata[path[-1]] = to(metadata) if callable(to) else to

    return change


REFUSED: dict[str, Callable[[dict[str, Any]], object]] = {
    "its own parent": at("snapshots", 1, "parent-snapshot-id", to=lambda s: s["snapshot-id"]),
    "a circle of two": lambda m: at("snapshots", 0, "parent-snapshot-id", to=m["snapshots"][1]["snapshot-id"])(m),
    "a circle off main": lambda m: m["snapshots"].extend(
        {**m["snapshots"][0], "snapshot-id": n, "parent-snapshot-id": 3 - n} for n in (1, 2)
    ),
    "an id twice": lambda m: m["snapshots"].append(m["snapshots"][0]),
    "a far time": at("snapshots", 1, "timestamp-ms", to=FAR),
    "a time before 1970": at("snapshots", 0, "timestamp-ms", to=-1),
    "main on a snapshot that is not there": at("refs", "main", "snapshot-id", to=7),
    "a tag on a snapshot that is not there": at("refs", "v1", to={"snapshot-id": 7, "type": "tag"}),
    "a far time in the log": at("snapshot-log", 0, "timestamp-ms", to=FAR),
}
PASSED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a count of another script": at("snapshots", 1, "summary", "added-records", to="²"),
    "a count of 5,000 digits": at("snapshots", 1, "summary", "added-records", to="9" * 5000),
    "a negative count": at("snapshots", 1, "summary", "total-records", to="-5"),
    "a cursor of another script": at("properties", "lake.consumer.c.snapshot", to="²"),
    "a cursor of 5,000 digits": at("properties", "lake.consumer.c.snapshot", to="9" * 5000),
    "a cursor that is a word": at("properties", "lake.consumer.c.snapshot", to="soon"),
    "run keys of 5,000 digits": at("properties", "lake.recent-run-keys", to=f"{'a' * 16}@{'9' * 5000}"),
    "run keys dropped before ²": at("properties", "lake.run-keys-dropped-before", to="²"),
}


def everything_that_looks(conn_id: str) -> dict[str, Callable[[], object]]:
    from airflow_lake_provider.contracts.applied.applied_history import applied_runs
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.triggers.poll_threads import PollThreads

    hook, looks = LakeCatalogHook(conn_id), PollThreads(conn_id)
    return {
        "look of a watcher": lambda: looks.look("shop.orders", ("main",), None),
        "sensor": lambda: decide(TableHead.of(hook.loaded("shop.orders").facts), Since(consumer="c")),
        "start of an upsert": lambda: applied_runs(hook.loaded("shop.orders").facts, "ffffffff"),
        "airflow lake check": lambda: hook.loaded("shop.orders").check(("id",)),
        "report of a change": lambda: hook.loaded("shop.orders").state(),
    }


@pytest.fixture
def tampered(orders: Table, append: Callable[..., int]) -> Table:
    append(orders, 1)
    append(orders, 2)
    return orders


@pytest.mark.parametrize("name", REFUSED)
def test_metadata_that_no_writer_makes_is_refused_by_everything_that_looks(
    name: str, tampered: Table, lake_connection: str
) -> None:
    tamper(tampered, REFUSED[name])
    for look in everything_that_looks(lake_connection).values():
        with pytest.raises(BrokenMetadataError, match="orders"):
            look()


@pytest.mark.parametrize("name", PASSED)
def test_numbers_that_only_inform_stop_nobody(name: str, tampered: Table, lake_connection: str) -> None:
    tamper(tampered, PASSED[name])
    for look in everything_that_looks(lake_connection).values():
        look()


@pytest.mark.parametrize(
    ("name", "is_refused"), [*((name, True) for name in REFUSED), *((name, False) for name in PASSED)]
)
def test_health_of_metadata_that_no_writer_makes_is_an_entry_with_its_error(
    name: str, is_refused: bool, tampered: Table, lake_connection: str
) -> None:
    from airflow_lake_provider.hooks.table_health import table_health

    tamper(tampered, {**REFUSED, **PASSED}[name])
    (found,) = table_health("shop.orders", lake_conn_id=lake_connection)
    assert (found.error or "").startswith("BrokenMetadataError: ") == is_refused
    assert (found.score is None) == is_refused


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "soon", ""], ids=lambda text: ascii(text)[:9])
@pytest.mark.parametrize("name", ["write.target-file-size-bytes", "history.expire.max-ref-age-ms"])
def test_a_setting_of_the_owner_that_is_no_number_is_named_by_the_plan(
    name: str, text: str, tampered: Table, lake_connection: str
) -> None:
    from airflow_lake_provider.contracts.applied.run_key import RunIdentity
    from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    tamper(tampered, at("properties", name, to=text))
    table, now = LakeCatalogHook(lake_connection).loaded("shop.orders"), datetime.now(UTC)
    frame: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("batch")}
    if name.startswith("write"):
        spec = CompactionSpec(**frame)
        with pytest.raises(BrokenMetadataError, match=f"property '{name}' is"):
            table.plan_compaction(spec)
    else:
        expiry = SnapshotExpirySpec(**frame, expire_before=now, expire_stage_branches_before=now, retain_last=1)
        with pytest.raises(BrokenMetadataError, match=f"property '{name}' is"):
            table.plan_expiry(expiry)


def replaced_by(given: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    def change(metadata: dict[str, Any]) -> None:
        metadata.clear()
        metadata.update(given)

    return change


def raw_error_of(call: Callable[[], object]) -> Exception | None:
    """Return the error that is none of this package's."""
    try:
        call()
    except LakeProviderError:
        return None
    except Exception as error:  # noqa: BLE001  # any that is none of ours is the finding
        return error
    return None


VALUES: dict[str, Any] = {"gone": ..., "null": None, "a number": 77, "no list": [], "no object": {}, "a text": "x"}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("value", VALUES)
def test_metadata_that_lacks_a_field_or_has_another_one_is_read_or_refused_by_everything_that_looks(
    value: str, version: int, tampered: Table, lake_connection: str
) -> None:
    whole = json.loads(Path(tampered.metadata_location.removeprefix("file://")).read_text())
    whole["format-version"] = version
    looks, raw = everything_that_looks(lake_connection), dict[tuple[str, str], Exception]()
    for name in whole:
        given = {key: kept for key, kept in whole.items() if key != name}
        if VALUES[value] is not ...:
            given[name] = VALUES[value]
        tamper(tampered, replaced_by(given))
        for look, call in looks.items():
            if (error := raw_error_of(call)) is not None:
                raw[name, look] = error
    assert raw == {}


def record(snapshot: int, parent: int | None) -> Snapshot:
    counts = {"added-records": "1", "total-records": "1"}
    before = None if parent is None else str(parent)
    return Snapshot(id=str(snapshot), parent=before, at=1_767_225_600_000, sequence_number=snapshot, summary=counts)


IDS = st.integers(0, 8)


@settings(max_examples=200)
@given(st.dictionaries(IDS, st.none() | IDS, min_size=1, max_size=9), IDS, IDS)
def test_a_walk_ends_on_every_history_and_finds_what_a_plain_walk_finds(
    parents: dict[int, int | None], head: int, since: int
) -> None:
    assume(head in parents)
    walked: list[int] = []
    current: int | None = head
    while current in parents and current not in walked:
        walked.append(current)
        current = parents[current]
    known = {str(id_): record(id_, parent) for id_, parent in parents.items()}
    table = TableHead(head=str(head), snapshots=known)
    if current in walked:
        with pytest.raises(BrokenMetadataError, match="is its own ancestor"):
            table.lineage()
    else:
        assert [int(found.id) for found in table.lineage().records] == walked
    with suppress(BrokenMetadataError):
        decide(replace(table, consumers={"c": str(since)}), Since(snapshot_id=str(since)))
    refs = [Reference(name="main", snapshot=str(head), is_branch=True)]
    request = RetentionRequest(expire_before=1, retain_last=1, expire_stages_before=1, now=2)
    with suppress(BrokenMetadataError):
        work_out(table.snapshots.values(), refs, request)


def test_ancestors_of_a_circle_are_refused_and_those_of_a_long_history_are_found_at_once() -> None:
    circle = {str(n): record(n, (n + 1) % 3) for n in range(3)}
    with pytest.raises(BrokenMetadataError, match="is its own ancestor"):
        list(ancestors(circle, "0"))
    chain = {str(n): record(n, n - 1 or None) for n in range(1, 20_001)}
    assert [int(snapshot.id) for snapshot in ancestors(chain, "20000")] == list(range(20_000, 0, -1))
