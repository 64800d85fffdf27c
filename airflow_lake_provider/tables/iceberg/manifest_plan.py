"""Plan a rewrite of manifests from metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.reports.job import Outcome, RewriteManifestsReport
from airflow_lake_provider.iceberg.manifest_rules import fewest_manifests, manifests_sentence, specs_due

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_lake_provider.contracts.specs.maintenance import RewriteManifestsSpec
    from airflow_lake_provider.contracts.table_facts import TableFacts, TableState


def plan_manifests(
    facts: TableFacts, before: TableState, sizes: Mapping[int, Sequence[Sequence[int]]], spec: RewriteManifestsSpec
) -> RewriteManifestsReport:
    """Tell which manifests a rewrite would merge; the list of them is read, and none of them.

    :param before: counts of main's head.
    :param sizes: bytes of its manifests by partition spec, those of data and of deletes apart.
    :raises BrokenMetadataError: their target size of the table is no number.
    """
    due = specs_due(facts, sizes, sort=spec.sort)
    merged = [each for id_ in due for each in sizes[id_]]
    return RewriteManifestsReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due else Outcome.NOTHING_DUE,
        reason=manifests_sentence(sizes, due),
        before=before,
        manifests_rewritten=sum(map(len, merged)),
        manifests_added=sum(fewest_manifests(facts, each) for each in merged),
    )
