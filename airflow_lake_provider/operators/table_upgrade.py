"""LakeTableUpgradeOperator: raise a table's format version."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.specs.metadata_changes import TableUpgradeSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction
from airflow_lake_provider.planning.metadata_changes import plan_upgrade


class TableUpgradeAction(MetadataChangeAction[TableUpgradeSpec]):
    """The worker's part of an upgrade."""

    spec_type = TableUpgradeSpec

    plan = staticmethod(plan_upgrade)


class LakeTableUpgradeOperator(LakeJobOperator[TableUpgradeSpec]):
    """Upgrade a table to a higher format version. No file is rewritten, and there is no way back.

    A table of that version or a higher one is left as it is.

    :param table: ``namespace.table`` (templated).
    :param format_version: 2 or 3 (templated).
    :param allow_other_writers: upgrade to version 3 also where a Flink job has committed in the last 7 days; not a
        template.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: another format version was asked for.
    :raises UnsupportedError: a Flink job writes to the table.
    """

    action = TableUpgradeAction

    def __init__(self, *, format_version: int | str = 3, allow_other_writers: bool = False, **of_job: Any) -> None:
        super().__init__(**of_job)
        self.keep(locals())
