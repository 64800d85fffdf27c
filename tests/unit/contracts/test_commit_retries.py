"""A commit is sent again as often, and as soon, as the owner says."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import BrokenMetadataError

PREFIX = "commit.retry."
MEMBERS: dict[str, tuple[dict[str, str], int, list[float]]] = {
    "nothing is set": ({}, 4, [0.0, 0.0, 0.0]),
    "more retries": ({"num-retries": "5"}, 6, [0.0] * 5),
    "fewer": ({"num-retries": "1"}, 2, [0.0]),
    "none": ({"num-retries": "0"}, 1, []),
    "waits": ({"min-wait-ms": "100"}, 4, [0.1, 0.2, 0.4]),
    "bounded waits": ({"min-wait-ms": "100", "max-wait-ms": "150"}, 4, [0.1, 0.15, 0.15]),
    "a bounded whole": ({"min-wait-ms": "1000", "total-timeout-ms": "3500"}, 3, [1.0, 2.0]),
    "short waits in a long time": (
        {"num-retries": "9", "min-wait-ms": "500", "max-wait-ms": "600", "total-timeout-ms": "9999"},
        10,
        [0.5, *[0.6] * 8],
    ),
    "no time": ({"min-wait-ms": "1000", "total-timeout-ms": "10"}, 1, []),
}


@pytest.mark.parametrize("member", MEMBERS)
def test_a_commit_is_sent_as_often_as_the_owner_says(member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, tries, waits = MEMBERS[member]
    slept: list[float] = []
    said: list[tuple[int, str]] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))
    retries = CommitRetries.of("shop.orders", {PREFIX + name: value for name, value in given.items()}, 4)
    assert list(retries.attempts(lambda text: said.append((len(slept), text)))) == list(range(1, tries + 1))
    assert slept == pytest.approx(waits)
    # Before the wait, and only of one that a person would notice.
    noticed = [
        (place, f"waiting {wait:.1f} s before try {place + 2} of 4") for place, wait in enumerate(waits) if wait >= 1
    ]
    assert [(place, text.split(": ")[1]) for place, text in said] == noticed


@pytest.mark.parametrize("name", ["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"])
def test_a_setting_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(BrokenMetadataError, match=PREFIX + name):
        CommitRetries.of("shop.orders", {PREFIX + name: "-1"}, 4)
