"""Maintain a namespace as the operators do, in a process that imports no more than theirs: what ``fleet`` measures."""

from __future__ import annotations

import sys

from airflow_lake_provider.contracts.reports.history_entry import DONE
from tests.run_maintenance import run_maintenance

PARALLELISM = 2
# The same retention for all sides. What the policy leaves out is its default.
POLICY = {"expiry": {"older_than": "P1D", "retain_last": 1, "min_snapshots": 1}}


def maintain(namespace: str) -> None:
    """Plan a namespace, carry the plan out, and fail where a task did."""
    outcomes = run_maintenance(f"{namespace}.*", namespace, plan={"policy": POLICY}, parallelism=PARALLELISM)
    failed = [f"{each}: {each.reason}" for each in outcomes if each.outcome != DONE]
    if failed:
        sys.exit("\n".join(failed))
