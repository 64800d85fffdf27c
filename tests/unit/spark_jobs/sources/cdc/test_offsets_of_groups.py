"""Offsets of a batch, of which each 32,768 come from a group of their own."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied import event_marks
from airflow_lake_provider.contracts.applied.event_marks import BUCKET, Ranges
from airflow_lake_provider.contracts.applied.log_positions import PostgresLogPosition
from airflow_lake_provider.spark_jobs.sources.cdc import redelivered_events
from airflow_lake_provider.spark_jobs.sources.cdc.redelivered_events import event_positions
from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import SinkFile

LABELS = ("t-0", "t-1")
PLACES = st.sampled_from([0, 1, 2, 3, 7, BUCKET - 2, BUCKET - 1])


def bitmap(places: set[int]) -> bytes | None:
    return sum(1 << place for place in places).to_bytes(BUCKET // 8, "little") if places else None


def group(label: str, bucket: int | None, read: set[int], below: set[int], file: int | None = None) -> dict[str, Any]:
    event = {"position": (bucket or 0, bucket or 0), "flag": False, "ts_ms": 1}
    times = ("ts_ms", "change_ts_ms", "snapshot_ts_ms", "after_commit_ts_ms", "below_mark_ts_ms", "above_mark_ts_ms")
    return {
        **dict.fromkeys(times, 1),
        **dict.fromkeys(("highest_key_change", "highest_delete", "highest"), event),
        "partition": label,
        "file": file,
        "bucket": bucket,
        "lines": 3,
        "without_offset": 0,
        "offsets": bitmap(read),
        "below_mark": len(below),
        "below_mark_offsets": bitmap(below),
    }


def offsets(ranges: Ranges) -> set[int]:
    return {offset for low, high in ranges for offset in range(low, high + 1)}


@given(
    st.lists(
        st.tuples(st.sampled_from(LABELS), st.sampled_from([None, 0, 1, 2]), st.sets(PLACES), st.sets(PLACES)),
        max_size=8,
    )
)
def test_the_offsets_of_a_partition_are_those_of_all_its_groups(parts: list[tuple[Any, ...]]) -> None:
    groups: list[dict[str, Any]] = []
    files: list[SinkFile] = []
    read: dict[str | None, set[int]] = defaultdict(set)
    below: dict[str | None, set[int]] = defaultdict(set)
    for label, bucket, places, old in parts:
        if bucket is None:
            # By its name a file begins at an offset and goes on for its three lines.
            first = max(places, default=0)
            groups.append(group(label, None, set(), old, file=len(files)))
            files.append(SinkFile(label, first))
            read[label] |= {first, first + 1, first + 2}
            below[label] |= {first, first + 1, first + 2} if old else set()
        else:
            groups.append(group(label, bucket, places, old))
            read[label] |= {bucket * BUCKET + place for place in places}
            below[label] |= {bucket * BUCKET + place for place in old}
    positions = event_positions(groups, tuple(files), PostgresLogPosition)
    assert set(positions.partitions) == {label for label, *_ in parts}
    for label, part in positions.partitions.items():
        assert part.mark is not None
        for ranges, expected in ((part.mark.consumed, read[label]), (part.below_mark.offsets, below[label])):
            assert offsets(ranges) == expected
            assert all(high + 1 < low for (_, high), (low, _) in pairwise(ranges))


def test_offsets_of_many_groups_are_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    union, joined = event_marks.union, 0

    def counted(*sets: Any) -> Ranges:
        nonlocal joined
        joined += sum(map(len, sets))
        return union(*sets)

    for module in (event_marks, redelivered_events):
        monkeypatch.setattr(module, "union", counted)
    groups = [group("t-0", bucket, {0, 2, 4}, {2}) for bucket in range(50)]
    event_positions(groups, (), PostgresLogPosition)
    # Three ranges of a group were read, and one is below the mark.
    assert joined == 50 * (3 + 1)
