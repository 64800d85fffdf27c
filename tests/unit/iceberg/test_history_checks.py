"""Histories that no writer makes, compared with a plain walk that remembers where it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.iceberg.metadata_facts import refuse_broken_history

AT = 1_764_000_000_000
IDS = st.integers(0, 12)


def has_circle(parents: dict[int, int | None]) -> bool:
    """Walk from each snapshot and remember where the walk was."""
    for start in parents:
        seen: set[int] = set()
        current: int | None = start
        while current is not None and current in parents:
            if current in seen:
                return True
            seen.add(current)
            current = parents[current]
    return False


@settings(max_examples=200)
@given(st.dictionaries(IDS, st.none() | IDS, max_size=12))
def test_exactly_the_histories_that_go_in_a_circle_are_refused(parents: dict[int, int | None]) -> None:
    snapshots = [(snapshot, parent, AT) for snapshot, parent in parents.items()]
    if has_circle(parents):
        with pytest.raises(
            BrokenMetadataError, match=r"shop\.orders goes in a circle: snapshot \d+ is its own ancestor"
        ):
            refuse_broken_history("shop.orders", snapshots)
    else:
        refuse_broken_history("shop.orders", snapshots)


BROKEN: dict[str, tuple[list[tuple[int, int | None, int]], tuple[int, ...]]] = {
    "its own parent": ([(1, 1, AT)], ()),
    "a circle of two": ([(1, 2, AT), (2, 1, AT)], ()),
    "a circle of three": ([(1, 3, AT), (2, 1, AT), (3, 2, AT)], ()),
    "a tail before a circle": ([(4, 3, AT), (1, 2, AT), (2, 3, AT), (3, 1, AT)], ()),
    "a circle of no branch": ([(1, None, AT), (2, 3, AT), (3, 2, AT)], ()),
    "an id twice": ([(1, None, AT), (1, 1, AT)], ()),
    "a negative id": ([(-1, None, AT)], ()),
    "an id of 5,000 digits": ([(10**5000, None, AT)], ()),
    "a time after the year 9999": ([(1, None, 2**63 - 1)], ()),
    "a time before 1970": ([(1, None, -1)], ()),
    "a time of 5,000 digits": ([(1, None, 10**5000)], ()),
    "a log after the year 9999": ([(1, None, AT)], (2**62,)),
    "a log before 1970": ([(1, None, AT)], (AT, -5)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_writer_makes_is_refused_and_never_retried(name: str) -> None:
    snapshots, logged = BROKEN[name]
    with pytest.raises(BrokenMetadataError, match=r"shop\.orders") as refused:
        refuse_broken_history("shop.orders", snapshots, logged)
    assert not refused.value.retry_may_help
    assert len(str(refused.value)) < 400


def test_a_long_history_is_checked_in_one_pass_from_either_end() -> None:
    chain = [(n, n - 1 if n else None, AT) for n in range(50_000)]
    refuse_broken_history("shop.orders", chain)
    refuse_broken_history("shop.orders", reversed(chain))
