"""Histories of keys, compared with a plain walk through their events, whatever order these come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random, randrange
from typing import Any, ClassVar

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from tests.spark.formats.suite import ALL, FormatSuite, needs
from tests.spark.history_flow import expected, history_of, put, table
from tests.spark.history_model import Event, Version, after, random_batches
from tests.spark.upsert_flow import NewFlow

OVERLAPS = """
SELECT * FROM audited a JOIN audited b ON a.id = b.id AND a.valid_from < b.valid_from
WHERE a.valid_to IS NULL OR a.valid_to > b.valid_from
"""

LAYOUTS = ((), ("is_current", "months(valid_from)"))
WRITTEN = [
    pytest.param(("merge", LAYOUTS[1]), marks=needs("strategy-merge")),
    pytest.param(("positions", LAYOUTS[0]), marks=needs("strategy-positions")),
]


class HistorySuite(FormatSuite):
    """Rows that are versions of a key."""

    deals: ClassVar[Mapping[str, Sequence[Any]]] = {"written": WRITTEN}

    @needs("merge-history", "kept-values", "audits")
    def test_late_repeated_and_deleting_events_leave_the_rows_of_the_model(
        self, new_flow: NewFlow, written: tuple[str, tuple[str, ...]]
    ) -> None:
        strategy, partition_by = written
        seed = randrange(10**9) if ALL else self.version
        print(f"the events of seed {seed}")
        flow = history_of(new_flow, create=self.layout(partition_by=partition_by), strategy=strategy)
        model: list[Version] = []
        first, second = random_batches(Random(seed), 2)
        for number, batch in enumerate((first, second, first)):
            put(flow, f"{number}.jsonl", batch)
            audits = Audits({"overlaps": OVERLAPS}) if number == 2 else None
            report = flow.apply(f"run {number}", audits=audits)
            was, model = {(row.key, row.since): row for row in model}, after(model, batch)
            assert table(flow) == expected(model)
            now = {(row.key, row.since): row for row in model}
            assert report.rows_inserted == len(now.keys() - was.keys())
            assert report.rows_deleted == len(was.keys() - now.keys())
            assert report.rows_updated == sum(was[key] != now[key] for key in was.keys() & now.keys())
        head = flow.head()
        put(flow, "again.jsonl", [Event(row.key, row.at, row.seq, row.city, row.note) for row in model])
        again = flow.apply("run again")
        assert (again.rows_inserted, again.rows_updated, again.rows_deleted) == (0, 0, 0)
        assert flow.head() != head, "the position has to move"
