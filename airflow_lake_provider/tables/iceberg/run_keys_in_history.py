"""Read from a table's metadata, without Spark, which runs of one task it has applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.tables.iceberg.ancestors import ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table


def applied_runs(table: Table, who: str, branch: str = "main") -> dict[str, str | None]:
    """Return run key to snapshot id of the commits of ``who`` on a branch.

    :param table: loaded now.
    :param who: first half of the run key, see ``contracts.run_key``.
    :return: newest first; the id is None where the snapshot was expired and only the property remembers.
    """
    found: dict[str, str | None] = {}
    for snapshot in ancestors(table.metadata, table.snapshot_by_name(branch)):
        key = snapshot.summary.additional_properties.get(RUN_KEY) if snapshot.summary else None
        if key is not None and key.startswith(who):
            found.setdefault(key, str(snapshot.snapshot_id))
    if branch == "main":
        for key, _ in RecentRunKeys.read(table.properties).entries:
            if key.startswith(who):
                found.setdefault(key, None)
    return found
