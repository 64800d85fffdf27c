"""Ratios of cold upserts are of the work alone, and come from tables that are right."""

from __future__ import annotations

import pytest

from tests.benchmarks.cold_sizes import SIZES, ColdSize
from tests.benchmarks.cold_tables import ColdCheck
from tests.benchmarks.upsert_cold import ColdSeconds
from tests.benchmarks.upsert_floor import Floor
from tests.benchmarks.upsert_options import parse_options

FLOOR = Floor(key_pass=1.0, write=0.5, commit=0.5)


def test_the_ratio_is_of_seconds_less_each_sides_own_empty_application_of_the_round() -> None:
    seconds = ColdSeconds()
    for ours, bare in ((14.0, 30.0), (13.0, 26.0), (30.0, 28.0)):
        seconds.add({"ours": ours, "ours_empty": 6.0, "bare": bare, "bare_empty": 8.0})
    assert seconds.rounds() == [pytest.approx(22 / 8), pytest.approx(18 / 7), pytest.approx(20 / 24)]
    assert seconds.ratios(SIZES["30m"], FLOOR) == {
        "cold_30m_vs_merge": pytest.approx(20 / 8),
        "cold_30m_vs_merge_whole": pytest.approx(28 / 14),
        "cold_30m_vs_merge_floor_ratio": pytest.approx(8 / 2),
    }


@pytest.mark.parametrize(
    ("contents", "wrong"),
    [
        ({"ours": (105, 7), "bare": (105, 7)}, None),
        ({"ours": (105, 7), "bare": (105, 8)}, "the tables differ"),
        ({"ours": (104, 7), "bare": (104, 7)}, "105 were expected"),
    ],
)
def test_tables_that_differ_or_lack_a_new_key_are_wrong(
    contents: dict[str, tuple[int, int]], wrong: str | None
) -> None:
    found = ColdCheck(contents=contents, expected_rows=105, floor=FLOOR).wrong()
    assert found is None if wrong is None else wrong in str(found)


def test_sizes_are_chosen_by_name_or_by_rows_and_batch() -> None:
    chosen = parse_options(None, ["--cold", "--cold-sizes", "small,100m,20000x100"]).cold_sizes
    assert chosen == [SIZES["small"], SIZES["100m"], ColdSize("20000x100", 20_000, 100, "cold_20000x100_vs_merge")]
    assert parse_options(None, []).cold_sizes == [SIZES["small"], SIZES["30m"]]


@pytest.mark.parametrize("text", ["medium", "20000", "0x5", "1x0", "", "20000x"])
def test_another_size_is_refused_with_those_that_there_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(None, ["--cold-sizes", text])
    assert "small, 30m, 100m" in capsys.readouterr().err
