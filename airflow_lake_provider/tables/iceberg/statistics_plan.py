"""Plan statistics from metadata alone, and tell when they were computed last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.reports.job import Outcome, StatisticsReport

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from airflow_lake_provider.contracts.specs.maintenance import StatisticsSpec
    from airflow_lake_provider.contracts.table_facts import TableState
    from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts


def plan_statistics(
    facts: IcebergFacts,
    before: TableState,
    spec: StatisticsSpec,
    of_table: Collection[str],
    of_partitions: Collection[str],
) -> StatisticsReport:
    """Tell which statistics main's head lacks.

    :param before: counts of that head.
    :param of_table: ids of the snapshots that have those of the table.
    :param of_partitions: likewise, those of partitions.
    """
    lacking = [] if before.snapshot is None or before.snapshot in of_table else ["the table"]
    if before.snapshot is not None and facts.shape.was_partitioned and before.snapshot not in of_partitions:
        lacking.append("its partitions")
    return StatisticsReport(
        table=spec.table,
        outcome=Outcome.PLANNED if lacking else Outcome.NOTHING_DUE,
        reason=f"main's head lacks statistics of {' and '.join(lacking)}" if lacking else "main's head has all of them",
        before=before,
        of_snapshot=before.snapshot,
    )


def statistics_at(facts: IcebergFacts) -> datetime | None:
    """Return the moment of main's newest snapshot that has statistics; None where none has.

    Those of another branch, or of what a rollback took off main, help no reader of main.
    """
    ids = {id_ for id_, _ in facts.statistics}
    return next((each.committed_at for each in facts.ancestors() if each.id in ids), None) if ids else None
