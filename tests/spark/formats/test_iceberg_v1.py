"""Behaviour of Iceberg tables of format version 1: upserts by files that are written anew."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import choose_strategy
from tests.spark.formats.base_upserts import StrategySuite
from tests.spark.formats.iceberg_suite import IcebergSuite
from tests.spark.upsert_flow import NewFlow, row

ASKS_FOR_DELETES = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}


class TestStrategies(IcebergSuite, StrategySuite):
    version = 1

    def test_a_table_that_asks_for_deletes_is_written_by_files_and_refused_by_merge(
        self, new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flow = new_flow(create=self.layout(properties=ASKS_FOR_DELETES))
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
        with pytest.raises(UnsupportedError, match=r"merge-on-read, and format version 1 has .* No table was made"):
            flow.apply("run 0", strategy="merge")
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(1, "b"), row(2, "", op="d"))
        with pytest.raises(UnsupportedError, match=r"is not possible, .*; set it to copy-on-write, or upgrade"):
            flow.apply("run 2", strategy="merge")
        with monkeypatch.context() as patch:
            patch.setattr(choose_strategy, "MOST_BROADCAST_KEYS", 1)
            with pytest.raises(UnsupportedError, match=r"auto takes it as 2 keys are more .*, and the table"):
                flow.apply("run 2")
        assert flow.apply("run 2").strategy == "copy-on-write"
        assert flow.rows() == {1: ("b", 0)}
        # What the refusals ask for.
        flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
        flow.arrive("3.jsonl", row(1, "c"), row(3, "c"))
        assert flow.apply("run 3", strategy="merge").strategy == "merge"
        assert flow.rows() == {1: ("c", 0), 3: ("c", 0)}
