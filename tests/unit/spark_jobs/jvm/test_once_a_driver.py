"""Objects that a driver makes once, however many of its threads ask at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_lake_provider.spark_jobs.jvm.gateway import once_a_driver


def test_threads_that_ask_at_once_get_one_object() -> None:
    session: Any = SimpleNamespace(sparkContext=object())
    made = []

    @once_a_driver
    def make(_: Any) -> object:
        made.append(object())
        time.sleep(0.05)
        return made[-1]

    begin = Barrier(4)

    def ask(_: int) -> object:
        begin.wait()
        return make(session)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(4)))
    assert len(made) == 1
    assert all(answer is made[0] for answer in answers)


def test_one_that_fails_is_made_anew() -> None:
    session: Any = SimpleNamespace(sparkContext=object())
    left = [ValueError("no")]

    @once_a_driver
    def make(_: Any) -> int:
        if left:
            raise left.pop()
        return 1

    with pytest.raises(ValueError, match="no"):
        make(session)
    assert make(session) == 1


def test_one_may_ask_for_itself_with_other_arguments() -> None:
    session: Any = SimpleNamespace(sparkContext=object())

    @once_a_driver
    def make(spark: Any, depth: int) -> int:
        return depth and make(spark, depth - 1) + 1

    assert make(session, 3) == 3
