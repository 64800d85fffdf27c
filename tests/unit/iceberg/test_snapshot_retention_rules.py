from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.contracts.table_facts import Reference, Snapshot
from airflow_lake_provider.iceberg.snapshot_retention import Retention, RetentionRequest, request_for, work_out

HOUR = 3_600_000
NOW = 1_000 * HOUR


def line(*hours: int, first: int = 1, parent: int | None = None) -> list[Snapshot]:
    """Snapshots first, first + 1, ... committed at these hours, each the parent of the next."""
    ids = [str(number) for number in range(first, first + len(hours))]
    parents = [None if parent is None else str(parent), *ids]
    return [Snapshot(id=i, parent=p, at=h * HOUR) for i, p, h in zip(ids, parents, hours, strict=False)]


def branch(name: str, snapshot: int | str, **retention: int) -> Reference:
    return Reference(name=name, snapshot=str(snapshot), is_branch=True, **retention)


def tag(name: str, snapshot: int | str, **retention: int) -> Reference:
    return Reference(name=name, snapshot=str(snapshot), is_branch=False, **retention)


def expire(
    snapshots: list[Snapshot], *refs: Reference, hour: int = 900, retain_last: int = 1, stage_hour: int = 0
) -> Retention:
    request = RetentionRequest(
        expire_before=hour * HOUR, retain_last=retain_last, expire_stages_before=stage_hour * HOUR, now=NOW
    )
    return work_out(snapshots, refs, request)


def test_snapshots_past_the_age_go_and_the_head_stays() -> None:
    answer = expire(line(1, 2, 3), branch("main", 3))

    assert answer.expired == ("1", "2")
    assert answer.kept_by_refs == {"3": "main"}


def test_a_year_of_commits_is_worked_out_at_once() -> None:
    snapshots = line(*range(20_000))
    started = time.process_time()
    answer = expire(snapshots, branch("main", 20_000), hour=10_000)
    assert time.process_time() - started < 3
    assert answer.expired == tuple(each.id for each in snapshots[:10_000])


def test_branches_that_share_a_long_history_are_worked_out_at_once() -> None:
    snapshots = line(*range(20_000))
    branches = [branch(f"b{number}", 20_000 - number) for number in range(150)]
    started = time.process_time()
    answer = expire(snapshots, branch("main", 20_000), *branches, hour=19_990)
    assert time.process_time() - started < 2
    assert len(answer.expired) == 20_000 - 150


@pytest.mark.parametrize("is_reversed", [False, True])
def test_what_refs_share_is_of_each_of_them(is_reversed: bool) -> None:
    refs = [tag("v1", 2), branch("audit", 3, max_snapshot_age=HOUR), branch("main", 4, max_snapshot_age=HOUR)]
    answer = expire(line(950, 951, 952, 953), *(refs[::-1] if is_reversed else refs))
    assert answer.expired == ("1",)


def test_a_snapshot_of_exactly_the_age_stays() -> None:
    assert expire(line(899, 900, 901), branch("main", 3)).expired == ("1",)


def test_only_snapshots_past_the_age_are_said_to_be_kept_by_refs() -> None:
    assert expire(line(1, 899, 950), branch("main", 3), tag("t", 2)).kept_by_refs == {"2": "t"}


def test_retain_last_counts_ancestors_of_each_branch() -> None:
    snapshots = line(1, 2, 3) + line(4, 5, first=10, parent=1)

    answer = expire(snapshots, branch("main", 3), branch("audit", 11), retain_last=2)

    assert answer.expired == ("1",)


def test_a_tag_keeps_its_own_snapshot_only() -> None:
    answer = expire(line(1, 2, 3), branch("main", 3), tag("lake.consumer.a", 2))

    assert answer.expired == ("1",)
    assert answer.kept_by_refs == {"2": "lake.consumer.a", "3": "main"}


def test_a_branchs_own_number_of_snapshots_goes_before_the_one_asked_for() -> None:
    assert expire(line(1, 2, 3, 4), branch("main", 4, min_snapshots=3)).expired == ("1",)


def test_a_branchs_own_age_of_snapshots_goes_before_the_one_asked_for() -> None:
    refs = (branch("main", 4), branch("patient", 4, max_snapshot_age=NOW - 2 * HOUR))

    assert expire(line(1, 2, 3, 4), *refs).expired == ("1",)


def test_a_ref_past_its_own_age_goes_and_main_never_does() -> None:
    refs = (branch("main", 3, max_ref_age=1), tag("old", 1, max_ref_age=HOUR))

    answer = expire(line(1, 2, 3), *refs)

    assert answer.aged_refs == ("old",)
    assert answer.expired == ("1", "2")


def test_snapshots_that_no_ref_reaches_go_by_age_alone() -> None:
    snapshots = [*line(1, 2), Snapshot(id="8", parent="1", at=10 * HOUR), Snapshot(id="9", parent="1", at=950 * HOUR)]

    assert expire(snapshots, branch("main", 2), retain_last=5).expired == ("8",)


def test_a_stage_branch_with_an_old_commit_of_its_own_goes() -> None:
    snapshots = line(1, 999) + line(5, first=10, parent=1)

    answer = expire(snapshots, branch("main", 2), branch("lake_stage_x", 10), stage_hour=500)

    assert answer.stage_branches == ("lake_stage_x",)
    assert "10" in answer.expired


def test_a_stage_branch_with_a_young_commit_stays_although_its_base_is_old() -> None:
    snapshots = line(1, 2) + line(600, first=10, parent=1)

    assert expire(snapshots, branch("main", 2), branch("lake_stage_x", 10), stage_hour=500).stage_branches == ()


def test_a_stage_branch_just_made_on_an_unchanged_table_stays_although_its_head_is_old() -> None:
    assert expire(line(1, 2), branch("main", 2), branch("lake_stage_x", 2), stage_hour=500).stage_branches == ()


def test_a_stage_branch_without_commits_is_dated_by_what_main_did_next() -> None:
    snapshots = line(1, 2, 600)

    answer = expire(snapshots, branch("main", 3), branch("lake_stage_a", 1), branch("lake_stage_b", 2), stage_hour=500)

    assert answer.stage_branches == ("lake_stage_a",)


def test_only_branches_with_the_prefix_are_swept() -> None:
    snapshots = line(1, 999) + line(5, first=10, parent=1)
    refs = (branch("main", 2), branch("stage_x", 10), tag("lake_stage_tag", 10))

    assert expire(snapshots, *refs, stage_hour=500).stage_branches == ()


TREES = st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=15).map(
    lambda rows: [
        Snapshot(id=str(i + 1), parent=str((parent % i) + 1) if i else None, at=hour * HOUR)
        for i, (hour, parent) in enumerate(rows)
    ]
)


@given(TREES, st.data(), st.integers(0, 1000), st.integers(1, 4))
def test_no_ref_loses_its_snapshot_and_nothing_young_goes(
    snapshots: list[Snapshot], data: st.DataObject, hour: int, retain_last: int
) -> None:
    ids = st.sampled_from([s.id for s in snapshots])
    refs = [branch("main", data.draw(ids)), branch("audit", data.draw(ids)), tag("t", data.draw(ids))]

    answer = expire(snapshots, *refs, hour=hour, retain_last=retain_last)

    gone = set(answer.expired)
    assert not gone & {ref.snapshot for ref in refs}
    assert not gone & set(answer.kept_by_refs)
    by_id = {s.id: s for s in snapshots}
    for ref in refs[:2]:
        lineage, current = [], by_id.get(ref.snapshot)
        while current is not None:
            lineage.append(current.id)
            current = by_id.get(current.parent) if current.parent is not None else None
        assert not gone & set(lineage[:retain_last])
    in_order = all(s.parent is None or by_id[s.parent].at <= s.at for s in snapshots)
    if in_order:
        assert all(by_id[i].at < hour * HOUR for i in gone)


LEAST, AGE, REF_AGE = (
    "history.expire.min-snapshots-to-keep",
    "history.expire.max-snapshot-age-ms",
    "history.expire.max-ref-age-ms",
)
ASKED = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def asked(**given: object) -> SnapshotExpirySpec:
    base = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("d", "r", "t", "-1"), "asked_at": ASKED}
    return SnapshotExpirySpec(**{**base, "expire_stage_branches_before": ASKED, **given})  # type: ignore[arg-type]  # as kwargs


@pytest.mark.parametrize(
    ("given", "properties", "retain_last", "age", "held"),
    [
        ({}, {}, 1, 5 * DAY, ["retain_last is the default 1", "older_than is the default P5D"]),
        ({}, {LEAST: "3"}, 3, 5 * DAY, [f"retain_last is 3, the table's {LEAST}"]),
        ({"retain_last": 7}, {LEAST: "3"}, 7, 5 * DAY, [f"retain_last is the DAG's and not 3, the table's {LEAST}"]),
        ({"retain_last": 7}, {}, 7, 5 * DAY, ["retain_last is the DAG's,"]),
        ({}, {AGE: "86400000"}, 1, DAY, [f"older_than is 86,400,000, the table's {AGE}"]),
        ({"minimum_age": 2 * DAY, "stage_branches_older_than": 2 * DAY}, {AGE: "86400000"}, 1, 2 * DAY, [AGE]),
        ({"minimum_age": DAY}, {AGE: "864000000"}, 1, 10 * DAY, [AGE]),
        ({"expire_before": ASKED - 9 * DAY}, {AGE: "1"}, 1, 9 * DAY, ["older_than is the DAG's and not 1,"]),
        ({}, {AGE: str(2**63 - 1)}, 1, ASKED - datetime(1970, 1, 1, tzinfo=UTC), []),
    ],
)
def test_what_the_owner_of_a_table_has_set_holds_unless_the_dag_names_a_value(
    given: dict[str, object], properties: dict[str, str], retain_last: int, age: timedelta, held: list[str]
) -> None:
    request = request_for(asked(**given), properties, ASKED)
    assert request.retain_last == retain_last
    assert request.expire_before == round((ASKED - age).timestamp() * 1000)
    for said in held:
        assert said in request.held


@pytest.mark.parametrize("name", [LEAST, AGE, REF_AGE])
@pytest.mark.parametrize("value", ["", "x", "0", "-1", "1.5", "²", "9" * 5000, "NaN"])
def test_a_setting_that_is_no_number_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BrokenMetadataError) as refused:
        request_for(asked(), {name: value}, ASKED)
    for said in ("shop.orders", name, "a whole number from 0 on" if value != "0" else "above 0"):
        assert said in str(refused.value)
    assert len(str(refused.value)) < 700
