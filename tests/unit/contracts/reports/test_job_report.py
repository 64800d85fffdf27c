"""Reports and failures: the same after the border, as plain JSON on it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import CommitConflictError, InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.json_codec import from_plain, storable, to_json, to_plain
from airflow_lake_provider.contracts.reports.commit_counts import of_both
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    DeleteRowsReport,
    ExpiryReport,
    IncrementalReport,
    JobReport,
    Outcome,
    UpdateRowsReport,
    UpsertReport,
)
from airflow_lake_provider.contracts.reports.report_codec import REPORTS, JobFailure, report_from_plain, report_to_plain
from airflow_lake_provider.contracts.table_facts import TableState

COUNTS = st.integers(0, 2**63 - 1)
IDS = COUNTS.map(str)
STATES = st.none() | st.builds(TableState, snapshot=st.none() | IDS, rows=COUNTS, snapshots=COUNTS)
SHARED = {
    "table": st.just("shop.orders"),
    "outcome": st.sampled_from(Outcome),
    "reason": st.text(),
    "run_key": st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    "before": STATES,
    "after": STATES,
    "committed": st.lists(IDS).map(tuple),
    "warnings": st.lists(st.text()).map(tuple),
    "seconds": st.dictionaries(st.text(), st.floats(0, 1e9)),
}
ANSWERS = st.one_of(
    st.builds(
        UpsertReport,
        **SHARED,
        rows_updated=st.none() | COUNTS,
        strategy=st.none() | st.text(),
        source_position=st.text(),
    ),
    st.builds(CompactionReport, **SHARED, level=st.none() | st.text(), failures=st.lists(st.text()).map(tuple)),
    st.builds(
        ExpiryReport, **SHARED, snapshots_expired=st.lists(IDS).map(tuple), kept_by_refs=st.dictionaries(IDS, IDS)
    ),
    st.builds(IncrementalReport, **SHARED, from_snapshot=st.none() | IDS, upserts_read=COUNTS),
    st.builds(
        DeleteRowsReport,
        **SHARED,
        retained_by=st.none() | st.dictionaries(st.text(), st.lists(IDS).map(tuple)),
        bounds_in=st.lists(IDS).map(tuple),
    ),
    st.builds(UpdateRowsReport, **SHARED, rows_updated=COUNTS),
    st.builds(JobFailure, error=st.text(), message=st.text(), traceback=st.text()),
)


@settings(deadline=None)
@given(ANSWERS)
def test_an_answer_is_the_same_after_the_border(answer: JobReport | JobFailure) -> None:
    shown = from_plain(type(answer), storable(to_plain(answer)))
    assert report_from_plain(json.loads(to_json(report_to_plain(answer)))) == shown


@settings(deadline=None)
@given(ANSWERS)
def test_an_answer_has_no_text_that_postgresql_refuses(answer: JobReport | JobFailure) -> None:
    written = json.dumps(report_to_plain(answer), ensure_ascii=False)
    assert r"\u0000" not in written.replace(r"\\", "")
    assert written.encode()


def test_signs_that_no_database_stores_are_shown_as_python_escapes_them() -> None:
    failure = JobFailure(error="InvalidInputError", message="key 'a\x00b' of in/\udcff.csv, é😀", traceback="")
    assert report_to_plain(failure)["failure"]["message"] == r"key 'a\x00b' of in/\udcff.csv, é😀"


@pytest.mark.parametrize("cls", REPORTS.values())
def test_every_report_can_be_written_with_nothing_but_what_is_shared(cls: type[JobReport]) -> None:
    report = cls(table="shop.orders", outcome=Outcome.DONE, reason="because")
    plain = json.loads(to_json(report_to_plain(report)))
    assert plain["action"] == cls.action
    assert plain["report"].keys() == {field.name for field in fields(cls)}
    assert report_from_plain(plain) == report


def test_snapshot_ids_are_text_that_no_json_reader_rounds() -> None:
    report = UpsertReport(table="a.b", outcome=Outcome.APPLIED, reason="", committed=("8245678901234567891",))
    assert '"committed":["8245678901234567891"]' in to_json(report_to_plain(report))


def test_a_failure_becomes_its_error_again() -> None:
    error = JobFailure(error="CommitConflictError", message="lost 5 times", traceback="").to_error()
    assert type(error) is CommitConflictError
    assert str(error) == "lost 5 times"
    assert type(JobFailure(error="Py4JError", message="", traceback="").to_error()) is JobFailedError


@pytest.mark.parametrize("action", ["vacuum", None])
def test_a_report_of_another_version_is_refused_in_words(action: str | None) -> None:
    with pytest.raises(InvalidSpecError, match=str(action)):
        report_from_plain({"action": action, "report": {}})
    with pytest.raises(InvalidSpecError, match="colour"):
        report_from_plain({"action": "upsert", "report": {"colour": "red"}})


def test_the_commits_of_one_run_are_one_report() -> None:
    states = [TableState(snapshot=str(number), rows=number, snapshots=number) for number in range(4)]
    shared: dict[str, Any] = {"table": "t", "outcome": Outcome.APPLIED, "dead_letters": None}
    one, two, three = (
        UpsertReport(
            **shared,
            reason=f"applied {number}",
            run_key=f"k{number}",
            before=states[number],
            after=states[number + 1],
            committed=(f"s{number}",),
            warnings=("w",),
            schema_changes=(f"c{number}",) if number == 0 else (),
            batch_rows=10**number,
            rows_updated=None if number == 1 else 2,
            rows_deleted=number,
            attempts=1,
            source_position=f"p={number}",
        )
        for number in range(3)
    )
    done = of_both(of_both(one, two), three)
    assert done == replace(
        three,
        reason="applied 0; 2 more commits followed, the last of which applied 2",
        before=states[0],
        committed=("s0", "s1", "s2"),
        schema_changes=("c0",),
        batch_rows=111,
        rows_updated=None,
        rows_deleted=3,
        attempts=3,
    )
    nothing = UpsertReport(
        table="t", outcome=Outcome.EMPTY_BATCH, reason="no rows", warnings=("v",), seconds={"a": 1.0}
    )
    assert of_both(done, nothing) == replace(done, warnings=("w", "v"), seconds={"a": 1.0})
