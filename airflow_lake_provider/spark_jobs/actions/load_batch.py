"""Frame of every load: what of a source's input is new to the table, applied once, and the report of what was not.

Dead letters of a batch are kept in their table, once, before the others of its records are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.applied.source_position import SourcePosition, moved_at
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.commit_counts import of_both
from airflow_lake_provider.contracts.reports.job import LoadReport, Outcome
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.actions.already_applied import Unchanged, recognised, without_new_input
from airflow_lake_provider.spark_jobs.batch.change_batch import (
    LETTER_ID,
    DeadLetters,
    release_frames,
    released_on_failure,
)
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import (
    AppendCommit,
    AppliedCommit,
    seen_after_commit,
    state_after_commit,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sources.base import (
    BatchSource,
    ChangeBatch,
    Listing,
    RowBatch,
    Wanted,
    open_source,
)
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
from airflow_lake_provider.spark_jobs.sources.raw_batch import UndecidedTextError
from airflow_lake_provider.spark_jobs.sql.query import check_query

SpecT = TypeVar("SpecT", bound=LoadSpec)
ReportT = TypeVar("ReportT", bound=LoadReport)
_ATTEMPTS_OF_LETTERS = 20


@dataclass(frozen=True, kw_only=True)
class NewInput(Generic[SpecT, ReportT]):
    """Input of a source that one try applies to a table.

    :param listed: all that the source has.
    :param decision: on what of it is applied, and the position after it.
    :param report: class of the report.
    """

    spec: SpecT
    source: BatchSource
    target: FormatTable
    listed: Listing
    applied_state: AppliedState
    decision: InputDecision
    run_key: str
    report: type[ReportT]
    progress: Progress

    @property
    def wanted(self) -> Wanted:
        """The part of the listing that is read, for the source."""
        return Wanted(
            listing=self.decision.wanted,
            target=self.target,
            applied_state=self.applied_state,
            repeats=self.decision.repeats,
            other_stream=self.decision.other_stream,
        )

    @property
    def positions(self) -> dict[str, SourcePosition]:
        """Positions that move with the commit, by the names of their sources."""
        decision = self.decision
        # A batch that no position knows has none to move.
        is_moved = self.spec.keeps_position and decision.position != decision.start
        return {decision.wanted.source_name: decision.position} if is_moved else {}

    @property
    def has_to_move(self) -> bool:
        """True where the position moves though the batch has no rows."""
        wanted = self.decision.wanted
        return wanted.has_to_move(moved_at(self.applied_state.commits, wanted.source_name))

    @property
    def moves_past_letters(self) -> bool:
        """True where a commit of letters alone keeps the next run from reading them: a branch has no position."""
        return self.spec.branch is None and bool(self.positions)

    @property
    def is_compared(self) -> bool:
        """True where the source is the whole table, and there are rows that it is compared with."""
        return self.spec.is_complete and self.applied_state.base is not None

    def with_rows(self, apply: Callable[[RowBatch], ReportT], deduplicate_by: Sequence[str]) -> ReportT:
        """Apply the rows as they are, twice where the first time cannot tell what is no text."""

        def released(batch: RowBatch) -> ReportT:
            try:
                return apply(batch)
            finally:
                if batch.dead_letters is not None:
                    batch.dead_letters.release()

        try:
            return released(self.source.rows(self.wanted, deduplicate_by))
        except UndecidedTextError:
            return released(self.source.rows(self.wanted, deduplicate_by, takes_replacements=True))

    def of_commit(self) -> dict[str, Any]:
        """Return the fields that every commit of a batch has."""
        return {
            "action": self.spec.action,
            "run_key": self.run_key,
            "base": self.applied_state.base,
            "positions": self.positions,
            "branch": self.spec.branch,
            "missing_columns": self.source.missing_columns,
            "audits": self.spec.audits,
        }

    def keep_dead_letters(self, batch: RowBatch | ChangeBatch) -> dict[str, int]:
        """Write the dead letters of a batch before it is committed; return their number for summary and report."""
        letter, letters = self.spec.dead_letter, batch.dead_letters
        if letter is None or letters is None:
            return {}
        if letters.count:
            table = table_of(letters.rows.sparkSession, self.spec, TableName.parse(letter.table))
            _keep_dead_letters(table, letter.table, letters, self.run_key, self.spec.max_attempts, self.progress)
        return {"dead_letters": letters.count}

    def unchanged(self, why: Unchanged, **fields: Any) -> ReportT:
        """Report that the table is left as it is."""
        return _unchanged(self.spec, self.target, self.run_key, self.progress, self.report, why, **fields)

    def consumed(self) -> tuple[str, ...]:
        """Tell the source, after the commit, what of it is consumed; return a warning where that fails.

        What is read already is kept for longer than needed then, and the next run moves on.
        """
        wanted = self.decision.wanted
        _, unmoved = seen_after_commit(
            "what the source keeps for its readers", lambda: self.source.after_commit(wanted)
        )
        return unmoved

    def applied(self, commit: AppliedCommit, before: TableState | None, **fields: Any) -> ReportT:
        """Report a commit; what is not said of it is read back from the table.

        :param before: the table before it; None where it did not exist.
        :param fields: of the report; ``reason`` where it is not about positions.
        """
        decision, warnings, read = self.decision, fields.pop("warnings", ()), self.source.warnings_of_reading
        after, unseen = state_after_commit(lambda: self.target.state(self.spec.branch))
        unmoved = self.consumed()
        of_input = decision.wanted.applied(self.listed, decision.start)
        if self.spec.is_complete:
            of_input = f"applied all {len(self.listed.identities)} inputs as the whole table"
        applied = fields.pop("reason", None) or decision.noted(of_input)
        return self.report(
            table=self.spec.table,
            outcome=Outcome.APPLIED,
            reason=f"{applied}{commit.settings_clause}",
            run_key=self.run_key,
            before=before,
            after=after,
            committed=(commit.snapshot,),
            warnings=(*decision.warnings, *read, *commit.warnings, *warnings, *unseen, *unmoved),
            seconds=dict(self.progress.seconds),
            batch_files=len(decision.wanted.files),
            audits_passed=commit.audits_passed,
            audit_runs=commit.audit_runs,
            **fields,
        )


def load_batch(
    spark: SparkSession,
    spec: SpecT,
    report: type[ReportT],
    apply: Callable[[NewInput[SpecT, ReportT]], ReportT],
    progress: Progress,
) -> ReportT:
    """Apply a batch, or say why there is nothing to apply.

    :param apply: commits once; called again on the head that another writer left.
    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: a query is not what it is called; nothing was run.
    """
    _check_queries(spark, spec)
    target = table_of(spark, spec)
    with closing(open_source(spark, spec)) as source:
        located = source.location()

        def attempt(number: int) -> tuple[ReportT, bool]:
            reported, goes_on = _attempt(spec, source, target, report, apply, progress)
            # One that lost may leave nothing to commit.
            return replace(reported, attempts=number if reported.is_of_this_try else number - 1), goes_on

        done, goes_on = retry_conflicts(attempt, spec.max_attempts, progress)
        while goes_on:
            progress.say(f"{done.reason}; going on")
            later, goes_on = retry_conflicts(attempt, spec.max_attempts, progress)
            done = of_both(done, later)
    return replace(done, source_location=located.address, warnings=(*done.warnings, *located.warnings))


def _check_queries(spark: SparkSession, spec: LoadSpec) -> None:
    """Refuse texts that are no queries, before anything is read or run."""
    if spec.source.query:
        check_query(spark, spec.source.query, f"{spec.table}: the query of the source", allow_sql=spec.allow_sql)
    for name, query in (spec.audits.queries if spec.audits else {}).items():
        check_query(spark, query, f"{spec.table}: audit {name!r}", allow_sql=spec.allow_sql)


def _attempt(
    spec: SpecT,
    source: BatchSource,
    target: FormatTable,
    report: type[ReportT],
    apply: Callable[[NewInput[SpecT, ReportT]], ReportT],
    progress: Progress,
) -> tuple[ReportT, bool]:
    """Return the report of one commit, and whether the run goes on with what this leaves."""
    with progress.phase("plan") as facts:
        listed = source.list()
        applied_state = target.applied_state(listed.source_name, spec.branch)
        run_key = spec.run.run_key(spec.digest_text(), listed.identities_behind(applied_state.position))
        facts["files"] = len(listed.files)
    done = recognised(spec, applied_state, listed, run_key)
    if done is not None:
        return _unchanged(spec, target, run_key, progress, report, done), False
    others = partial(target.other_positions, listed.source_name)
    decision = decide_input(spec, applied_state, listed, others, source.other_stream(applied_state.position))
    new = NewInput(
        spec=spec,
        source=source,
        target=target,
        listed=listed,
        applied_state=applied_state,
        decision=decision,
        run_key=run_key,
        report=report,
        progress=progress,
    )
    unchanged = _without_input(new)
    if unchanged is not None:
        return new.unchanged(unchanged), False
    applied = apply(new)
    return applied, decision.wanted.goes_on and applied.outcome is Outcome.APPLIED


def _without_input(new: NewInput[SpecT, ReportT]) -> Unchanged | None:
    """Return why there is nothing to apply; None where there is something."""
    spec, decision = new.spec, new.decision
    if decision.skip_reason:
        return without_new_input(spec, decision)
    # Where the source is the whole table, nothing means something.
    if new.listed.is_empty and not new.is_compared:
        return Unchanged(Outcome.EMPTY_BATCH, "the source has no input")
    if decision.wanted.is_empty and not spec.is_complete:
        return without_new_input(spec, decision)
    return None


def _unchanged(
    spec: LoadSpec,
    target: FormatTable,
    run_key: str,
    progress: Progress,
    report: type[ReportT],
    why: Unchanged,
    **fields: Any,
) -> ReportT:
    state = target.state(spec.branch) if target.exists() else None
    reported = {"run_key": run_key, **why.reported(report), **fields}
    return report(table=spec.table, before=state, after=state, seconds=dict(progress.seconds), **reported)


def _keep_dead_letters(
    table: FormatTable, name: str, letters: DeadLetters, run_key: str, max_attempts: int, progress: Progress
) -> None:
    """Add those that the table has not: a second try, and a second driver, have letters of the same ids.

    :param name: of the table, for messages.
    :raises BadInputError: it is another table.
    :raises CommitConflictError: other writers won every attempt.
    """

    def attempt(number: int) -> None:  # noqa: ARG001  # each is alike
        columns = StructType([StructField(field.name, field.dataType) for field in letters.rows.schema])
        present = table.schema() if table.is_created() else None
        if present is None:
            table.create(columns, (LETTER_ID,), TableLayout())
        elif lacking := sorted({*columns.names} - {*present.names}):
            raise BadInputError(f"{name} is no table of dead letters, it lacks {lacking}; give dead_letter another one")
        base = table.applied_state("").base
        rows, kept = aside, table.current_rows(base)
        if kept is not None:
            # Files that have letters of other targets, or other input, alone go unread. An id is of its file.
            kept = kept.filter((sf.col("target") == letters.target) & sf.col("file").isin(files))
            rows = rows.join(kept.select(LETTER_ID), LETTER_ID, "left_anti")
        # Of what it reads, nothing may change before it commits: two drivers would add the same letters.
        commit = AppendCommit(
            action="dead-letters",
            run_key=run_key,
            base=base,
            rows=rows,
            reads_table=True,
            counts=lambda added: {} if added else None,
        )
        table.append(commit, Progress())

    with progress.phase("dead letters") as facts, released_on_failure() as cached:
        facts["rows"] = letters.count
        # Each attempt would find them among all records again.
        cached.append(aside := letters.rows.persist())
        files = [row["file"] for row in aside.select("file").distinct().collect()]
        # All loads of a lake may keep their letters in one table.
        retry_conflicts(attempt, max(max_attempts, _ATTEMPTS_OF_LETTERS), progress)
        release_frames(aside)
