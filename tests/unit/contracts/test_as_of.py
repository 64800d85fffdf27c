"""A moment of a table is read from its text alone, and looked up in the table's metadata."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_lake_provider.contracts.as_of import as_of, snapshot_as_of
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.table_facts import Reference, Snapshot, TableFacts
from tests.table_facts import table_of

SECOND = 1_000
# 1 and 2 were made before main had them: it came to 2 by a publication, went back to 1, and is at 4. 3 was expired.
FACTS = replace(
    table_of(*(Snapshot(id=id_, parent=None, at=int(id_)) for id_ in ("4", "1", "2"))),
    main_log=[(10 * SECOND, "1"), (20 * SECOND, "2"), (30 * SECOND, "3"), (40 * SECOND, "1"), (50 * SECOND, "4")],
    references={
        name: Reference(name=name, snapshot=snapshot, is_branch=name != "eod")
        for name, snapshot in {
            "main": "4",
            "audit": "2",
            "eod": "1",
            "2": "4",
            "20261127": "1",
            "2026-11-27": "2",
        }.items()
    },
)


def at(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()


@pytest.mark.parametrize(
    ("given", "snapshot"),
    [
        ("1", "1"),
        # Digits are an id, though a tag has that name.
        ("2", "2"),
        # A snapshot that the table has not is a name.
        ("20261127", "1"),
        ("eod", "1"),
        ("audit", "2"),
        ("main", "4"),
        # A date alone is a name.
        ("2026-11-27", "2"),
        (at(10), "1"),
        (at(19.999), "1"),
        (at(20), "2"),
        (at(45), "1"),
        (at(50), "4"),
        ("2100-01-01 00:00:00Z", "4"),
        (datetime(1970, 1, 1, 1, 0, 20, tzinfo=timezone(timedelta(hours=1))), "2"),
        ("1970-01-01T01:00:20+01:00", "2"),
    ],
)
def test_a_moment_is_the_snapshot_that_it_names(given: Any, snapshot: str) -> None:
    assert snapshot_as_of(FACTS, as_of(given, "as_of")) == snapshot
    assert as_of(as_of(given, "as_of"), "as_of") == as_of(given, "as_of")


@pytest.mark.parametrize(
    ("given", "facts", "said"),
    [
        ("3", FACTS, "snapshot 3 is not in the table's metadata: it was expired"),
        ("3821550127947089009", FACTS, "A tag keeps a snapshot from expiry"),
        ("eom", FACTS, "is no tag or branch of the table; it has 2, 2026-11-27, 20261127, audit, eod, main"),
        (at(30), FACTS, "snapshot 3 is not in"),
        (
            at(9),
            FACTS,
            r"no snapshot then, or it was expired; its log goes back to 1970-01-01T00:00:10\+00:00",
        ),
        (at(9), table_of(), "its log is empty"),
        ("main", table_of(), "it has none"),
    ],
)
def test_what_a_table_has_not_is_refused_with_what_it_has(given: str, facts: TableFacts, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        snapshot_as_of(facts, given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3821550127947089009, "a snapshot id as text"),
        (True, "a snapshot id as text"),
        ("", "a snapshot id as text"),
        (datetime(2026, 1, 1), "must be a time with a zone"),  # noqa: DTZ001  # that is what is refused
        ("2026-01-01T00:00:00", "must be a time with a zone"),
        ("2026-01-01 00:00", "must be a time with a zone"),
        ("2026-13-01T00:00:00Z", "looks like a time and is none"),
        ("0001-01-01T00:00:00+05:00", "must be from year 1 to 9999 in UTC"),
        ("9999-12-31T23:59:00-05:00", "must be from year 1 to 9999 in UTC"),
    ],
)
def test_what_is_no_moment_is_refused_when_it_is_given(given: Any, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        as_of(given, "as_of")
