"""Histories of change events, of whole snapshots and beside other writers, and tables that cannot have one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.actions import history_batch
from tests.spark.history_flow import BEGIN, SCHEMA, expected, history_of, put, table
from tests.spark.history_model import Event, Version, after
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow


def test_change_events_are_rows_of_a_query_each_of_them_a_version(flow: Flow) -> None:
    kind = "STRUCT<id BIGINT, city STRING>"
    schema = f"before {kind}, after {kind}, op STRING, source STRUCT<lsn BIGINT, ts_ms BIGINT>"
    sql = (
        "SELECT coalesce(after.id, before.id) AS id, after.city, op, source.lsn, "
        "timestamp_millis(source.ts_ms) AS changed_at FROM source"
    )
    events = [("c", 0, None, "Bern"), ("u", 3, "Bern", "Oslo"), ("d", 5, "Oslo", None), ("c", 5, None, "Rome")]
    for lsn, (op, at, before, after_) in enumerate(events):
        row = {name: city and {"id": 1, "city": city} for name, city in (("before", before), ("after", after_))}
        flow.arrive(f"{lsn}.jsonl", {**row, "op": op, "source": {"lsn": lsn, "ts_ms": 1000 * at}})
    files = Files(f"{flow.inbox}/*.jsonl", "json", schema)
    flow.apply(source=Query(sql, files), order_by=("changed_at", "lsn"), merge_engine=History())
    rows = sorted((row["valid_from"].timestamp(), row["valid_to"], row["city"]) for row in flow.records())
    ended = [None if end is None else end.timestamp() for _, end, _ in rows]
    assert [(start, end, city) for (start, _, city), end in zip(rows, ended, strict=True)] == [
        (0, 3, "Bern"),
        (3, 5, "Oslo"),
        (5, None, "Rome"),
    ]


def test_a_batch_that_another_commit_overtakes_is_made_anew_of_its_rows(new_flow: NewFlow) -> None:
    # By positions: the other strategies start over in any case.
    flow = history_of(new_flow, strategy="positions")
    first = [Event(1, 1, 1, "Bern", "a"), Event(2, 1, 1, "Bern", "a")]
    overtaking, late = [Event(1, 5, 1, "Rome", "b")], [Event(1, 3, 1, "Oslo", "c"), Event(2, 3, 1, deletes=True)]
    put(flow, "delete.jsonl", [Event(9, 0, 1, deletes=True)])
    assert flow.apply("delete").outcome is Outcome.APPLIED
    assert table(flow) == []
    put(flow, "first.jsonl", first)
    flow.apply("first")
    other = flow.spark, flow.inbox.parent / "other"
    put(flow, "late.jsonl", late)

    def overtake() -> None:
        rows = Flow(other[0], flow.table, other[1], flow.changes)
        put(rows, "rows.jsonl", overtaking)
        rows.apply("other", source=Files(f"{other[1]}/*.jsonl", "json", SCHEMA, name="other"))

    report = flow.apply("late", progress=InterruptedProgress(at="choose", then=overtake))
    assert report.attempts == 2
    assert table(flow) == expected(after(after(after([], first), overtaking), late))


def test_a_row_without_a_time_is_refused_with_the_column_that_has_it(new_flow: NewFlow) -> None:
    flow = history_of(new_flow)
    flow.arrive("first.jsonl", {"id": 1, "at": None, "city": "Bern"}, {"id": 2, "at": "2026-01-01T00:00:00Z"})
    with pytest.raises(BadInputError, match=r"1 of 2 rows have NULL in at, the time from which .* valid: fill it in"):
        flow.apply("first")


def test_a_time_that_stands_for_none_is_refused_before_it_spoils_the_versions_of_its_key(new_flow: NewFlow) -> None:
    flow = history_of(new_flow)
    never = 24 * 365 * 7979
    first, late = [Event(1, 1, 1, "Bern", "a")], [Event(1, 3, 1, "Oslo", "b")]
    for events in ([*first, Event(1, never, 1, "Rome", "c")], [Event(2, never, 1, "Rome", "c")]):
        put(flow, "first.jsonl", events)
        with pytest.raises(BadInputError, match="versions would begin or end in the year 9999 or later"):
            flow.apply("first")
    # What has never begun to be valid may be told to end.
    put(flow, "first.jsonl", [*first, Event(3, never, 1, deletes=True)])
    flow.apply("first")
    put(flow, "late.jsonl", late)
    flow.apply("late")
    assert table(flow) == expected(after(after([], first), late))


def test_a_column_that_another_commit_adds_meanwhile_starts_the_batch_over(new_flow: NewFlow) -> None:
    flow = history_of(new_flow, missing_columns="null")
    first, late = [Event(1, 1, 1, "Bern", "a")], [Event(1, 3, 1, "Oslo", "b")]
    put(flow, "first.jsonl", first)
    flow.apply("first")
    put(flow, "late.jsonl", late)

    def overtake() -> None:
        flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN more INT")
        flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 1")

    report = flow.apply("late", progress=InterruptedProgress(at="read", then=overtake))
    assert report.attempts == 2
    assert table(flow) == expected(after([], late))


def whole(flow: Flow, at: str, rows: dict[int, tuple[str, str]], **changes: Any) -> Any:
    """Apply all rows that there are at a time."""
    for path in flow.inbox.glob("*"):
        path.unlink()
    flow.arrive(f"{at}.jsonl", *({"id": key, "city": city, "note": note} for key, (city, note) in rows.items()))
    return apply_whole(flow, at, f"{at} {sorted(rows)}", **changes)


def apply_whole(flow: Flow, at: str, run: str, **changes: Any) -> Any:
    """Apply the files that are there as all rows of a time."""
    source = Files(f"{flow.inbox}/*.jsonl", "json", "id BIGINT, city STRING, note STRING")
    return flow.apply(
        run,
        source=source,
        delete_when=None,
        is_complete=True,
        max_deleted_share=1.0,
        merge_engine=History(track=["city"], current=None, at=f"{at}T00:00:00+00:00"),
        **changes,
    )


def test_whole_snapshots_close_what_they_lack_and_write_nothing_else(new_flow: NewFlow) -> None:
    flow = new_flow()
    days = {
        "2026-01-01": {1: ("Bern", "a"), 2: ("Bern", "a"), 3: ("Bern", "a")},
        "2026-01-02": {1: ("Bern", "b"), 2: ("Oslo", "a"), 4: ("Rome", "a")},
        "2026-01-03": {1: ("Bern", "b"), 2: ("Oslo", "a"), 3: ("Bern", "a"), 4: ("Rome", "a")},
    }
    # A day on which nothing has changed.
    days["2026-01-04"] = days["2026-01-03"]
    model: list[Version] = []
    known: dict[int, tuple[str, str]] = {}
    for number, (day, rows) in enumerate(days.items()):
        gone = [Event(key, number, 1, deletes=True) for key in known.keys() - rows.keys()]
        events = [Event(key, number, 1, *values) for key, values in rows.items() if known.get(key) != values]
        report = whole(flow, day, rows)
        known, model = rows, after(model, [*gone, *events])
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted, report.rows_unchanged) == (0, 0, 0, 4)
    names = ("id", "valid_from", "valid_to", "city", "note")
    assert sorted(tuple(row[name] for name in names) for row in flow.records()) == [
        (r.key, BEGIN + timedelta(days=r.since), None if r.until is None else BEGIN + timedelta(days=r.until), r.city,
         r.note) for r in model
    ]  # fmt: skip
    # The same files say what is valid at a later time, too.
    assert apply_whole(flow, "2026-01-06", "later").outcome is Outcome.APPLIED
    with pytest.raises(BadInputError, match=r"the batch is of 2026-01-05T00:00:00\+00:00, and one of 2026-01-06"):
        whole(flow, "2026-01-05", {1: ("Lima", "late")})
    # Equal rows may have been valid from then on, too.
    for late in ({1: ("Lima", "late")}, days["2026-01-04"]):
        with pytest.raises(BadInputError, match=r"the batch is of 2026-01-02T00:00:00\+00:00, and one of 2026-01-06"):
            whole(flow, "2026-01-02", late)


def test_an_earlier_whole_is_refused_when_the_snapshot_of_the_later_one_has_expired(new_flow: NewFlow) -> None:
    flow = new_flow()
    whole(flow, "2026-01-01", {1: ("Bern", "a")})
    # It changes no row, so that no row tells its time.
    whole(flow, "2026-01-03", {1: ("Bern", "a")})
    flow.forget_commits("(2, 'Oslo', 'b', TIMESTAMP '2026-01-01 00:00:00 UTC', NULL)")
    with pytest.raises(BadInputError, match=r"the batch is of 2026-01-02T00:00:00\+00:00, and one of 2026-01-03"):
        whole(flow, "2026-01-02", {1: ("Lima", "late"), 2: ("Oslo", "b")})
    flow.spark.sql(f"ALTER TABLE lake_default.{flow.table} CREATE BRANCH audit")
    with pytest.raises(BadInputError, match=r"the batch is of 2026-01-02T00:00:00\+00:00, and one of 2026-01-03"):
        whole(flow, "2026-01-02", {1: ("Lima", "late"), 2: ("Oslo", "b")}, branch="audit")
    assert whole(flow, "2026-01-04", {1: ("Rome", "a"), 2: ("Oslo", "b")}).rows_inserted == 1
    # The branch does not have that batch, so that one of before comes first there.
    assert whole(flow, "2026-01-03", {1: ("Lima", "a")}, branch="audit").outcome is Outcome.APPLIED


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP_NTZ"])
def test_the_time_of_a_whole_is_stored_in_the_type_that_the_table_has_for_times(new_flow: NewFlow, kind: str) -> None:
    flow = table_with_times(new_flow, kind)
    for day, city in (("2026-01-01", "Bern"), ("2026-01-02", "Bern"), ("2026-01-03", "Oslo"), ("2026-01-03", "Rome")):
        whole(flow, day, {1: (city, "a")})
    rest = "" if kind == "DATE" else " 00:00:00"
    assert {row["city"]: (str(row["valid_from"]), str(row["valid_to"])) for row in flow.records()} == {
        "Bern": (f"2026-01-01{rest}", f"2026-01-03{rest}"),
        "Rome": (f"2026-01-03{rest}", "None"),
    }


def test_times_that_the_table_has_in_another_type_are_refused_with_what_to_do(new_flow: NewFlow) -> None:
    flow = table_with_times(new_flow, "STRING")
    with pytest.raises(BadInputError, match="valid_from is string and the time of a row is timestamp; name other col"):
        whole(flow, "2026-01-01", {1: ("Bern", "a")})
    put(flow, "1.jsonl", [Event(1, 1, 1, "Bern")])
    with pytest.raises(BadInputError, match="valid_from is string and the time of a row is timestamp; order by a time"):
        flow.apply(source=Files(f"{flow.inbox}/1.jsonl", "json", SCHEMA), order_by=("at",), merge_engine=History())


def table_with_times(new_flow: NewFlow, kind: str) -> Flow:
    flow = new_flow()
    flow.catalog()
    columns = f"id BIGINT, city STRING, note STRING, valid_from {kind}, valid_to {kind}"
    flow.spark.sql(f"CREATE TABLE {flow.table} ({columns})")
    return flow


def test_a_table_that_cannot_have_a_history_is_left_as_it_is(new_flow: NewFlow) -> None:
    flow = history_of(new_flow)
    put(flow, "1.jsonl", [Event(1, 1, 1, "Bern")])
    with pytest.raises(BadInputError, match=r"the first column of order_by is the time .* and note is string"):
        flow.apply(order_by=("note",))
    with pytest.raises(BadInputError, match=r"the batch has columns \['note'\], which the History writes"):
        flow.apply(merge_engine=History(current="note"))
    flow.apply(merge_engine="deduplicate")
    put(flow, "2.jsonl", [Event(1, 2, 1, "Rome")])
    with pytest.raises(BadInputError, match=r"lacks the columns \['is_current', 'valid_from', 'valid_to'\]"):
        flow.apply("run 2")
    flow.spark.sql(
        f"ALTER TABLE {flow.table} ADD COLUMNS (valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN)"
    )
    with pytest.raises(BadInputError, match="1 rows of the table with keys of the batch have NULL in valid_from"):
        flow.apply("run 2")
    flow.spark.sql(f"UPDATE {flow.table} SET valid_from = TIMESTAMP '1970-01-01 00:00:00 UTC'")
    assert flow.apply("run 2").outcome is Outcome.APPLIED
    assert [(row["city"], row["is_current"]) for row in sorted(flow.records(), key=lambda row: row["valid_from"])] == [
        ("Bern", False),
        ("Rome", True),
    ]


# As others keep histories: the second version of a key, and what is said of both.
BROKEN = [
    ("2026-01-05", "'9999-12-31'", "true", "1 rows .* have an end in valid_to and are current, or end in the year"),
    ("2026-01-05", "'9999-12-31'", "NULL", "1 rows .* or end in the year 9999 or later"),
    ("2026-01-05", "'2026-01-09'", "true", "1 rows .* have an end in valid_to and are current"),
    ("2026-01-03", "NULL", "true", "1 rows .* or when the next version of their key has already begun"),
    ("2026-01-05", "'2026-01-05'", "false", "1 rows .* end in valid_to before they begin"),
    ("2026-01-05", "'2026-01-02'", "false", "1 rows .* end in valid_to before they begin"),
    ("2025-12-01", "NULL", "false", "1 rows .* or never where there is one"),
    # Two that begin together: with other ends, and with other values.
    ("2026-01-01", "'2026-01-03'", "false", "1 rows .* or when the next version of their key has already begun"),
    ("2026-01-01", "'2026-01-05'", "false", "1 rows .* or when the next version of their key has already begun"),
]


def test_versions_that_others_wrote_and_that_are_no_history_are_refused(new_flow: NewFlow) -> None:
    flow = history_of(new_flow)
    put(flow, "0.jsonl", [Event(9, 1, 1, "Bern", "a")])
    flow.apply("run 0")
    rows = []
    for key, (begin, end, current, _) in enumerate(BROKEN):
        for note, day, until in (("a", "2026-01-01", "'2026-01-05', false"), ("b", begin, f"{end}, {current}")):
            rows.append(f"({key}, '{day}', 1, 'Bern', '{note}', '{day}', {until})")
    flow.spark.sql(
        f"INSERT INTO {flow.table} (id, at, seq, city, note, valid_from, valid_to, is_current) SELECT id, CAST(at AS "
        "TIMESTAMP), seq, city, note, CAST(since AS TIMESTAMP), CAST(until AS TIMESTAMP), is_current FROM VALUES "
        f"{', '.join(rows)} AS rows(id, at, seq, city, note, since, until, is_current)"
    )
    before = table(flow)
    for key, (*_, says) in enumerate(BROKEN):
        put(flow, "1.jsonl", [Event(key, 24 * 2, 1, "Oslo", "b")])
        with pytest.raises(BadInputError, match=says):
            flow.apply(f"run {key}")
    assert table(flow) == before
    # Keys that the batch does not have are nobody's concern.
    # Nor does it matter that a row was written twice.
    flow.spark.sql(f"INSERT INTO {flow.table} SELECT * FROM {flow.table} WHERE id = 9")
    put(flow, "1.jsonl", [Event(9, 24 * 2, 1, "Oslo", "b")])
    assert flow.apply("run 9").rows_inserted == 1
    assert [(row["city"], row["is_current"]) for row in flow.records() if row["id"] == 9] == [
        ("Bern", False),
        ("Oslo", True),
    ]


def test_a_version_that_begins_after_the_time_of_the_batch_is_refused_with_what_to_do(new_flow: NewFlow) -> None:
    flow = new_flow()
    whole(flow, "2026-01-01", {1: ("Bern", "a"), 2: ("Bern", "a")})
    flow.spark.sql(f"UPDATE {flow.table} SET valid_from = TIMESTAMP '2026-01-05 00:00:00 UTC' WHERE id = 1")
    with pytest.raises(BadInputError, match="1 rows of the table with keys of the batch begin or end later than 2026-"):
        whole(flow, "2026-01-03", {1: ("Oslo", "a"), 2: ("Oslo", "a")})
    assert whole(flow, "2026-01-06", {1: ("Oslo", "a"), 2: ("Oslo", "a")}).rows_inserted == 2


def test_more_keys_than_are_broadcast_leave_the_rows_of_the_model(
    new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_batch, "_MOST_BROADCAST", 1)
    flow = history_of(new_flow)
    first, late = (
        [Event(1, 1, 1, "Bern", "a"), Event(2, 5, 1, "Rome", "b")],
        [Event(1, 3, 1, "Oslo", "c"), Event(2, 2, 1, "Bern", "c")],
    )
    for number, events in enumerate((first, late)):
        put(flow, f"{number}.jsonl", events)
        flow.apply(f"run {number}")
    assert table(flow) == expected(after(after([], first), late))


def test_keys_without_any_other_column_have_a_history(new_flow: NewFlow) -> None:
    flow = new_flow(keys=("id", "city"))
    nothing = {"note": None}
    for day, cities in {"2026-01-01": ("Bern", "Oslo"), "2026-01-02": ("Oslo", "Rome")}.items():
        flow.arrive("1.jsonl", *({"id": 1, "city": city, **nothing} for city in cities))
        source = Files(f"{flow.inbox}/*.jsonl", "json", "id BIGINT, city STRING")
        engine = History(at=f"{day}T00:00:00+00:00")
        flow.apply(day, source=source, delete_when=None, is_complete=True, max_deleted_share=1.0, merge_engine=engine)
    first, second = BEGIN, BEGIN + timedelta(days=1)
    names = ("city", "valid_from", "valid_to", "is_current")
    assert sorted(tuple(row[name] for name in names) for row in flow.records()) == [
        ("Bern", first, second, False),
        ("Oslo", first, None, True),
        ("Rome", second, None, True),
    ]
