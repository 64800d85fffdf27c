"""Cold upserts as a whole, small. Nine applications start, so no CI runs it: name this file to run it."""

from __future__ import annotations

import pytest

from tests.benchmarks.cold_sizes import ColdSize
from tests.benchmarks.upsert_cold import measure_cold

pytestmark = [pytest.mark.slow]


def test_a_cold_comparison_gives_its_ratios_and_raw_seconds_from_equal_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set, so that what the benchmark sets is taken back.
    for name in ("AIRFLOW_CONN_LAKE", "AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW__LAKE__JOB_DIRECTORY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", "")
    results = measure_cold([ColdSize.named("20000x100")], rounds=1)
    name = "cold_20000x100_vs_merge"
    assert results["ratios"].keys() == {name, f"{name}_whole", f"{name}_floor_ratio", "floor_ratio"}
    (measured,) = results["cold"]
    assert {side: len(rounds) for side, rounds in measured["seconds"].items()} == {
        "ours": 1,
        "ours_empty": 1,
        "bare": 1,
        "bare_empty": 1,
    }
    assert all(rounds[0] > 0 for rounds in measured["seconds"].values())
