from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.table import Table


@pytest.fixture(autouse=True)
def _process_context(monkeypatch: pytest.MonkeyPatch) -> None:
    # A command sets it for its process, as Airflow's own do.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")


@pytest.fixture
def many_small(orders: Table, append: Callable[..., int]) -> Table:
    """A table of eight small files."""
    for number in range(8):
        append(orders, number)
    return orders
