"""A row of ``lake_ops.maintenance_leases``: a run that maintains a table, and until when others leave it alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

# Of the table's columns.
LEASES_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class MaintenanceLease:
    """One row; its fields are the columns, in their order. New ones go to the end.

    :param table_name: whole name of the table.
    :param run_key: of the run that has it, the same for each retry.
    :param dag_id: of the run.
    :param run_id: of the run.
    :param acquired_at: when.
    :param expires_at: from when on it does not hold any more.
    """

    table_name: str
    run_key: str
    dag_id: str
    run_id: str
    acquired_at: datetime
    expires_at: datetime
