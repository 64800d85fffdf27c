"""Buckets of rows that Python workers compare."""

from __future__ import annotations

import pyarrow as pa

from airflow_lake_provider.spark_jobs.batch.arrow_comparison import key_buckets as subject


def test_a_bucket_that_arrow_does_not_take_leaves_a_reason_and_no_failed_task() -> None:
    blocks = pa.table(
        {
            "_lake_bucket": pa.array([0], pa.int32()),
            "_lake_side": pa.array([0], pa.int8()),
            "_lake_rows": pa.array([b"no block of Arrow"], pa.binary()),
            "_lake_reason": pa.array([None], pa.string()),
        }
    )
    schema = pa.schema(
        {"_lake_side": pa.int8(), "id": pa.int64(), "_lake_digest": pa.int64(), "_lake_reason": pa.string()}
    )
    (row,) = subject._left_or_reason(schema, 1, blocks).to_pylist()
    assert row["_lake_reason"].startswith("ArrowInvalid: ")
    assert {row[name] for name in ("_lake_side", "id", "_lake_digest")} == {None}
