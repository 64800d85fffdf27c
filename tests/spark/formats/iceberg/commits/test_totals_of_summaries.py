"""Totals of a summary, by which a table is judged: those of its manifests, also after a batch on a new branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import merge_upsert
from tests.spark.append_flow import append, event
from tests.spark.upsert_flow import Flow, NewFlow, row

TOTALS = ("data-files", "records", "delete-files", "position-deletes")


def upsert(flow: Flow, run: str, *, strategy: UpsertStrategy, **changes: Any) -> Any:
    return flow.apply(run, strategy=strategy, **changes)


def counted(flow: Flow, snapshot: int) -> dict[str, int]:
    """Count files, and records in them, by the manifests of a snapshot."""
    files, records = Counter[bool](), Counter[bool]()
    for file in flow.loaded().inspect.files(snapshot).select(["content", "record_count"]).to_pylist():
        is_data = file["content"] == 0
        files[is_data] += 1
        records[is_data] += file["record_count"]
    return dict(zip(TOTALS, (files[True], records[True], files[False], records[False]), strict=True))


def summed_up(flow: Flow, snapshot: int) -> dict[str, int]:
    """Read the same from the snapshot's summary."""
    (summary,) = (each.summary for each in flow.loaded().snapshots() if each.snapshot_id == snapshot)
    assert summary is not None
    return {name: int(summary[f"total-{name}"] or 0) for name in TOTALS}


@pytest.mark.parametrize(
    "changes",
    [{"audits": Audits(queries={"few": "SELECT 1 FROM batch LIMIT 0"})}, {"branch": "load"}],
    ids=["audited", "branch"],
)
@pytest.mark.parametrize(
    ("load", "rows"),
    [
        (partial(upsert, strategy=UpsertStrategy.POSITIONS), [row(2, "b", 7), row(9, "c", 7)]),
        (partial(upsert, strategy=UpsertStrategy.COPY_ON_WRITE), [row(2, "b", 7), row(9, "c", 7)]),
        (append, [event(2), event(9)]),
    ],
    ids=["positions", "copy-on-write", "append"],
)
def test_a_batch_on_a_new_branch_goes_on_from_the_totals_of_main(
    new_flow: NewFlow, load: Callable[..., Any], rows: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", *({**rows[0], "id": number} for number in range(5)))
    load(flow, "run 1")
    for number in (2, 3):
        flow.arrive(f"{number}.jsonl", *({**each, "id": each["id"] + number} for each in rows))
        load(flow, f"run {number}", **changes)
        head = flow.loaded().metadata.refs[changes.get("branch", "main")].snapshot_id
        assert summed_up(flow, head) == counted(flow, head)
    assert counted(flow, head)["records"] >= 5


def test_an_expiry_by_the_tables_age_of_refs_leaves_the_branch_of_a_merge_that_runs(
    new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = new_flow()
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"))
    upsert(flow, "run 1", strategy=UpsertStrategy.MERGE)
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('history.expire.max-ref-age-ms'='1')")
    flow.spark.sql(f"ALTER TABLE {flow.table} CREATE TAG by_hand")

    def merged_beside_an_expiry(*arguments: Any) -> Any:
        expiry = "CALL lake_default.system.expire_snapshots(table => '{}', older_than => TIMESTAMP '1980-01-01 00:00')"
        flow.spark.sql(expiry.format(flow.table))
        return merge(*arguments)

    merge = merge_upsert._merge
    monkeypatch.setattr(merge_upsert, "_merge", merged_beside_an_expiry)
    flow.arrive("2.jsonl", row(2, "B"), row(3, "c"))
    upsert(flow, "run 2", strategy=UpsertStrategy.MERGE)
    table = flow.loaded()
    # The expiry took what it takes, and no stage branch is left.
    assert set(table.metadata.refs) == {"main"}
    assert sorted(flow.rows()) == [1, 2, 3]
    head = table.metadata.refs["main"].snapshot_id
    assert summed_up(flow, head) == counted(flow, head)
