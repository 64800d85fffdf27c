"""A table remembers key changes of which only the delete was applied."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.open_key_changes import OpenKeyChange, OpenKeyChanges

entries = st.lists(
    st.builds(
        OpenKeyChange,
        ordinal=st.integers(0, 2**63 - 1),
        key_hash=st.integers(0, 2**64 - 1),
        snapshot=st.integers(1, 2**63 - 1).map(str),
    ),
    max_size=8,
    unique_by=lambda entry: (entry.ordinal, entry.key_hash),
)


@given(old=entries, new=entries)
def test_key_changes_are_read_from_the_property_as_they_were_written(
    old: list[OpenKeyChange], new: list[OpenKeyChange]
) -> None:
    known = OpenKeyChanges().add(old).add(new)
    assert OpenKeyChanges.read(known.to_property("shop"), "shop") == known
    places = {(entry.ordinal, entry.key_hash) for entry in known.entries}
    assert {(entry.ordinal, entry.key_hash) for entry in (*old, *new)} == places
    assert OpenKeyChanges.read(known.to_property("shop"), "other") == OpenKeyChanges()


def test_the_oldest_key_changes_are_forgotten_when_a_property_is_full() -> None:
    known = OpenKeyChanges()
    for run in range(50):
        snapshot = str(2**62 + run)
        known = known.add(
            OpenKeyChange(ordinal=2**40 + 10 * run + n, key_hash=2**64 - n - 1, snapshot=snapshot) for n in range(5)
        )
    (text,) = known.to_property("shop").values()
    assert 3_400 < len(text) <= 3_500
    assert len(known.entries) > 100
    assert known.at(2**40 + 10 * 49)[0].snapshot == str(2**62 + 49)
    assert known.at(2**40) == ()


def test_a_delete_that_is_delivered_again_keeps_the_snapshot_that_has_its_row() -> None:
    first = OpenKeyChange(ordinal=7, key_hash=1, snapshot="10")
    again = OpenKeyChange(ordinal=7, key_hash=1, snapshot="11")
    assert OpenKeyChanges().add([first]).add([again]).at(7) == (first,)
