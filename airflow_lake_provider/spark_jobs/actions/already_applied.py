"""Recognise a run or events that were applied before, and do what the author wants of repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import NEW_RUN
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.commit_counts import counts_in_summary, counts_in_words
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision

_CHANGED_INPUT = (
    "the input has changed since an earlier try of this task committed it: files came, went or were corrected. Nothing "
    "was applied twice. Clear the task, or wait for the next run, to apply all of the input again"
)
_OWN_HEAD = (
    "the load reads the table that it writes, so a run applies once, whatever its input is by then. Give "
    "on_repeat='apply' and clear the task, or wait for the next run, to apply it again"
)


def recognised(spec: LoadSpec, applied_state: AppliedState, listed: Listing, run_key: str) -> Unchanged | None:
    """Return how this run is known to have made its commit; None where it has not.

    :raises BadInputError: it is known, and ``on_repeat`` is ``fail``.
    :raises ForgottenRunError: nobody can tell.
    """
    reads_itself = _reads_own_head(spec) and not listed.goes_on
    earlier = applied_state.run_keys.of_identity(spec.run.who)
    if not spec.keeps_position and earlier != run_key and not reads_itself:
        # It has not, or another try has put other input in place since.
        return None
    if spec.keeps_position and spec.on_repeat is not OnRepeat.APPLY:
        # Before the run key: that is a property, which a roll-back leaves behind.
        applied_state.position.refuse_rolled_back(applied_state.newest, listed.source_name, spec.table)
    done = recognised_run(
        spec,
        applied_state,
        run_key,
        "applied this input",
        # Without a position what was applied is applied again, which does no harm.
        is_covered_by_position=not spec.keeps_position
        or spec.on_repeat is OnRepeat.APPLY
        # A position knows the last whole only.
        or (spec.branch is None and not spec.is_complete and listed.is_covered_by(applied_state.position)),
        way_out=f"run it again with on_repeat='apply', or {NEW_RUN}",
    )
    if done is not None:
        return _repeat(spec, done)
    # Only with 'apply' each clearing is somebody else; otherwise a correction would be taken for a repetition.
    if earlier is not None and (reads_itself or (spec.keeps_position and spec.on_repeat is OnRepeat.APPLY)):
        reason = f"recognised by run key {earlier}: an earlier try has applied the input that it found"
        warning = _OWN_HEAD if reads_itself else _CHANGED_INPUT
        commit = applied_state.commit_of(earlier)
        return _repeat(spec, Unchanged(Outcome.ALREADY_APPLIED, reason, warning, earlier, commit))
    return None


def _reads_own_head(spec: LoadSpec) -> bool:
    """Tell whether a commit of the load is new input to it, so that only the run tells a repeat."""
    tables = spec.source.lake_tables.values()
    return any(each.moment is None and each.table.lower() == spec.table.lower() for each in tables)


def without_new_input(spec: LoadSpec, decision: InputDecision) -> Unchanged:
    """Return that the position knows all of the input."""
    reason = decision.noted(decision.skip_reason or "recognised by position: an earlier run has applied this input")
    return _repeat(spec, Unchanged(Outcome.NOTHING_NEW, reason, "; ".join(decision.warnings) or None))


def without_new_events(spec: LoadSpec, dropped: int) -> Unchanged:
    """Return that all events of new files were applied before."""
    reason = f"all {dropped} events were applied before; they were delivered again"
    return _repeat(spec, Unchanged(Outcome.NOTHING_NEW, reason))


def _repeat(spec: LoadSpec, why: Unchanged) -> Unchanged:
    if spec.on_repeat is OnRepeat.FAIL:
        raise BadInputError(f"{spec.table}: {why.reason}, and on_repeat='fail' was asked for")
    return why


def recognised_run(
    spec: JobSpec,
    applied_state: AppliedState,
    run_key: str,
    done: str,
    *,
    is_covered_by_position: bool = False,
    way_out: str = NEW_RUN,
) -> Unchanged | None:
    """Return that this run has made its commit; None where it has not.

    :param is_covered_by_position: whether something else than run keys tells what was applied, such as a position.
    :param way_out: what a person does about a refusal.
    :raises ForgottenRunError: nobody can tell.
    """
    if run_key in applied_state.run_keys:
        reason = f"recognised by run key {run_key}: this run has {done}"
        return Unchanged(Outcome.ALREADY_APPLIED, reason, run_key=run_key, commit=applied_state.commit_of(run_key))
    if not is_covered_by_position:
        applied_state.run_keys.refuse_forgotten(spec.run, spec.table, way_out)
    return None


@dataclass(frozen=True)
class Unchanged:
    """A run that leaves the table as it is.

    :param reason: for the report.
    :param warning: what its reader should know beside it; None for nothing.
    :param run_key: by which an earlier try was recognised; None for other reasons.
    :param commit: of that try; None where its snapshot has expired.
    """

    outcome: Outcome
    reason: str
    warning: str | None = None
    run_key: str | None = None
    commit: Snapshot | None = None

    def reported(self, report: type[JobReport]) -> dict[str, Any]:
        """Return the fields of a report that say why, and what an earlier try did."""
        warnings = (self.warning,) if self.warning else ()
        if self.run_key is None:
            return {"outcome": self.outcome, "reason": self.reason, "warnings": warnings}
        counts = counts_in_summary(report, self.commit.summary if self.commit else {})
        expired = "the snapshot of its commit has expired: what it did is not known any more"
        in_snapshot = f", in snapshot {self.commit.id}{counts_in_words(counts)}" if self.commit else ""
        return {
            "outcome": self.outcome,
            "reason": f"{self.reason}{in_snapshot}",
            "run_key": self.run_key,
            "committed": (self.commit.id,) if self.commit else (),
            "warnings": warnings if self.commit else (*warnings, expired),
            **counts,
        }
