"""Plan a rewrite of manifests from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from airflow_lake_provider.contracts.reports.job import Outcome, RewriteManifestsReport
from airflow_lake_provider.contracts.specs.rewrite_manifests import RewriteManifestsSpec
from airflow_lake_provider.iceberg.manifest_rules import fewest_manifests, manifests_sentence, specs_due

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.table_facts import TableFacts, TableState


class _Table(Protocol):
    """Table as the plan asks it, such as :class:`.LoadedIcebergTable`."""

    @property
    def facts(self) -> TableFacts: ...
    def state(self) -> TableState: ...
    def manifest_sizes(self, snapshot: str) -> Mapping[int, Sequence[Sequence[int]]]: ...


def plan_manifests(table: _Table, spec: RewriteManifestsSpec) -> RewriteManifestsReport:
    """Tell which manifests a rewrite would merge; the list of them is read, and none of them.

    :raises BrokenMetadataError: their target size of the table is no number.
    """
    before = table.state()
    sizes = table.manifest_sizes(before.snapshot) if before.snapshot is not None else {}
    due = specs_due(table.facts, sizes, sort=spec.sort)
    merged = [each for id_ in due for each in sizes[id_]]
    return RewriteManifestsReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due else Outcome.NOTHING_DUE,
        reason=manifests_sentence(sizes, due),
        before=before,
        manifests_rewritten=sum(map(len, merged)),
        manifests_added=sum(fewest_manifests(table.facts, each) for each in merged),
    )
