"""A source was restored, and its log has started again; then a file of the first log is delivered once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.debezium.event_stream import EventStream, drop

_DAY = 86_400_000
_BEGAN = 1_760_000_000_000


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    drop(spark)


@pytest.mark.parametrize("ordering", [None, "stream", "key"])
def test_a_file_of_the_first_log_is_refused_after_the_restart_and_the_new_log_goes_on(
    spark: SparkSession, folder: Path, ordering: str | None
) -> None:
    stream = EventStream(spark, folder, ordering)
    of_first_log = stream.event("u", 1, 2, lsn=10_000, ts_ms=_BEGAN)
    stream.bring(stream.event("c", 1, 1, lsn=9_000, ts_ms=_BEGAN - 1_000), of_first_log)
    stream.run()
    stream.restart()
    # The rows of a long snapshot are read for two hours, and later changes are committed meanwhile.
    rows = [stream.event("r", key, 3, lsn=100, ts_ms=_BEGAN + _DAY + key * 3_600_000) for key in (0, 1, 2)]
    stream.bring(*rows)
    stream.run()
    stale = stream.inbox / "of the first log.jsonl"
    for n, ts_ms in ((4, 60_000), (5, 120_000)):
        stale.write_text(of_first_log + "\n")
        with pytest.raises(BadInputError, match=r"committed earlier.*another log.*out of the"):
            stream.run()
        stale.unlink()
        stream.bring(stream.event("u", 1, n, lsn=100 * n, ts_ms=_BEGAN + _DAY + ts_ms))
        stream.run()
        assert stream.rows() == {(0, 3), (1, n), (2, 3)}
