from __future__ import annotations

import pytest

from airflow_lake_provider.spark_jobs.sources.cdc.sink_file_names import SinkFile, sink_file


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (
            "s3a://in/topics/shop.public.orders/partition=3/shop.public.orders+3+0000000120.json",
            SinkFile("shop.public.orders-3", 120),
        ),
        ("s3a://in/any.topic+0+0000000000.json.gz", SinkFile("any.topic-0", 0)),
        ("hdfs://n/topics/orders+1+0000000005+0000000009.json", SinkFile("orders-1", 5, 9)),
        ("gs://in/shop.public.orders-12-4711.gz", SinkFile("shop.public.orders-12", 4711)),
        ("gs://in/shop.public.orders-0-0", SinkFile("shop.public.orders-0", 0)),
        ("gs://in/shop.public.orders-0000000002-00000000000000000077.gz", SinkFile("shop.public.orders-2", 77)),
        # Dates, weeks and other tables look alike.
        ("s3a://in/orders-11-22.json", None),
        ("s3a://in/orders-2026-11-22.json", None),
        ("s3a://in/shop.public.orders-2026-47.json", None),
        ("s3a://in/shop.public.orders-01-05.json", None),
        ("s3a://in/shop.public.items-0-120.json", None),
        ("s3a://in/shop.public.orders+3.json", None),
        ("s3a://in/shop.public.orders+3+12.json.part", None),
        ("s3a://in/part-1.jsonl.gz", None),
    ],
)
def test_a_name_tells_partition_and_offset_only_where_a_sink_wrote_it(path: str, found: SinkFile | None) -> None:
    assert sink_file(path, "public.orders") == found
