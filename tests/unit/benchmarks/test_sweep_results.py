"""A sweep's ratios are those of its seconds, and its file keeps every cell for a run that goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.sweep_plan import Cell
from tests.benchmarks.sweep_results import CellResult, SweepFile, sweep_ratios

FLOOR = {"key_pass": 0.1, "write": 0.2, "commit": 0.2}


def measured(rows: int, **seconds: list[float]) -> CellResult:
    return CellResult(rows=rows, share=1, batch=rows // 100, seconds=seconds, strategy="positions: so", floor=FLOOR)


# Best peers 4.0 and 0.9 times ours; own strategies 0.5 and 3.0 times ours.
QUICK = measured(1000, ours=[1.0, 9.0, 0.5], merge_on_read=[4.0], delta=[5.0], ours_positions=[0.5], ours_merge=[7.0])
SLOW = measured(2000, ours=[2.0], copy_on_write=[1.8], delta=[8.0], ours_merge=[6.0])


def test_the_ratios_are_of_medians_to_the_best_peer_and_the_best_own_strategy() -> None:
    assert sweep_ratios([QUICK, SLOW]) == {
        "auto_vs_best_peer": pytest.approx((4.0 * 0.9) ** 0.5),
        "auto_worst_vs_best_peer": pytest.approx(0.9),
        "auto_worst_vs_own_strategies": pytest.approx(0.5),
        "auto_worst_choice": pytest.approx(1.0),
        "floor_ratio": pytest.approx((2 * 4) ** 0.5),
    }


def test_a_choice_is_as_good_as_the_chosen_strategy_was_when_asked_for() -> None:
    wrong = measured(1000, ours=[1.0], ours_positions=[2.0], ours_copy_on_write=[1.5], ours_merge=[3.0])
    assert sweep_ratios([QUICK, wrong])["auto_worst_choice"] == pytest.approx(0.75)
    copied = replace(wrong, strategy="copy-on-write: so")
    assert sweep_ratios([copied])["auto_worst_choice"] == pytest.approx(1.0)


def test_what_has_not_played_has_no_ratio() -> None:
    assert sweep_ratios([]) == {}
    assert sweep_ratios([measured(1000, ours=[1.0])]) == {"floor_ratio": pytest.approx(2)}


def test_a_stopped_sweep_goes_on_with_the_cells_that_lack(tmp_path: Path) -> None:
    wanted = [Cell(1000, 1), Cell(2000, 1), Cell(3000, 1)]
    stopped = SweepFile(tmp_path / "new" / "sweep.json", {"date": "2026-01-02"}, wanted)
    stopped.add(SLOW)
    assert json.loads(stopped.path.read_text())["lacking"] == [{"rows": 1000, "share": 1}, {"rows": 3000, "share": 1}]
    resumed = SweepFile(tmp_path / "other.json", {"date": "2026-01-03"}, wanted)
    resumed.resume(stopped.path)
    assert resumed.lacking() == [wanted[0], wanted[2]]
    resumed.add(QUICK)
    kept = json.loads(stopped.path.read_text())
    assert [CellResult(**cell) for cell in kept["cells"]] == [QUICK, SLOW]
    assert kept["ratios"]["auto_vs_best_peer"] == pytest.approx((4.0 * 0.9) ** 0.5, abs=0.01)
    assert not (tmp_path / "other.json").exists()
