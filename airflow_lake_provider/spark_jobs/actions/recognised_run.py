"""Recognise a run that the table says it has made, and refuse one of which the table may have forgotten it."""

from __future__ import annotations

from airflow_lake_provider.contracts.job_report import Outcome
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.run_key import NEW_RUN
from airflow_lake_provider.spark_jobs.actions.unchanged import Unchanged
from airflow_lake_provider.spark_jobs.formats.base import AppliedState


def recognised_run(
    spec: JobSpec,
    applied_state: AppliedState,
    run_key: str,
    done: str,
    *,
    is_told_otherwise: bool = False,
    way_out: str = NEW_RUN,
) -> Unchanged | None:
    """Return that this run has made its commit; None where it has not.

    :param done: what it has done, for the report.
    :param is_told_otherwise: whether something else than run keys tells what was applied, such as a position.
    :param way_out: what a person does about a refusal.
    :raises ForgottenRunError: nobody can tell.
    """
    if run_key in applied_state.run_keys:
        told = f"recognised by run key {run_key}: this run has {done}"
        return Unchanged(Outcome.ALREADY_APPLIED, told, run_key=run_key, commit=applied_state.commit_of(run_key))
    if not is_told_otherwise:
        applied_state.run_keys.refuse_forgotten(spec.run, spec.table, way_out)
    return None
