"""Tell from metadata, and from where a source ends, whether a load has anything new: where not, no Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.applied.positions import Comparison
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import REPORTS
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.tables.base import LoadedTable


def report_at_end(spec: LoadSpec, find_table: Callable[[str], LoadedTable | None]) -> JobReport | None:
    """Return the report of a table that stands at the end of its source; None where it may not, or nobody can tell.

    :param spec: of a load whose source tells its end to a worker, or of a query over one.
    :param find_table: gives the target; None where it does not exist.
    """
    source = spec.source.inputs[""]
    # Others look at more than the position.
    is_plain = spec.on_repeat is OnRepeat.SKIP and spec.source.on_source_change is OnSourceChange.CONTINUE
    if not is_plain or spec.is_complete or spec.branch is not None:
        return None
    target = find_table(spec.table)
    if target is None:
        return None
    applied = applied_of_source(target.facts, spec.source_name)
    if not applied.position.positions or applied.position.is_rolled_back(applied.newest):
        return None
    end = resolve_name(source.end)(source)
    start = applied.position.of(type(end)) if end is not None else None
    if start is None or start.compare(end) is not Comparison.EQUAL:
        return None
    state = target.state()
    return REPORTS[spec.action](
        table=spec.table,
        outcome=Outcome.NOTHING_NEW,
        reason=f"recognised by position: the table stands at the end of source {spec.source_name}",
        before=state,
        after=state,
    )
