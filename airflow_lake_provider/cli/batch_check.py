"""``airflow lake check --source``: what a batch would change in a table, by a driver that writes nothing."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.command_process import as_command, printable, run_driver
from airflow_lake_provider.cli.print_tables import show
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.reports.batch_plan import PutAsideRecord, SchemaChange
from airflow_lake_provider.contracts.reports.job import LoadReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.contracts.specs.spec_codec import Job, written_task
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.spark_submission import SparkSubmission

_TASK = "check"


@providers_configuration_loaded
def check_batch(args: Namespace) -> None:
    """Print a line for each change of a column and each record that would be put aside, or the report as JSON or YAML.

    :param args: ``table``, ``conn_id``, ``spark_conn_id``, ``source``, ``keys``, ``arguments`` and ``output``.
    :raises SystemExit: with a message where nothing can be said; with 1 where a run would refuse the batch.
    """
    with as_command():
        report = _report(args)
    if args.output in ("json", "yaml"):
        show([report], args.output, lambda *_: {})
    else:
        show(list(_lines(report)), args.output, _row)
        print(printable(report.reason))
    if report.plan is not None and report.plan.refused:
        raise SystemExit(1)


def batch_spec(args: Namespace) -> LoadSpec:
    """Return the dry run of a batch: an upsert where keys are given, else an append.

    :raises InvalidSpecError: an argument is none of the operator.
    """
    given = {} if args.arguments is None else _mapping(args.arguments, "--arguments")
    if not (args.source or "").strip():
        raise InvalidSpecError(f"--source must be a path of files, or a source as JSON, got {args.source!r}")
    is_object = args.source.lstrip().startswith("{")
    given |= {"table": args.table, "source": _source(_mapping(args.source, "--source") if is_object else args.source)}
    if args.keys:
        given["keys"] = list(args.keys)
    # The last word: an action that has no dry run would be a write.
    spec = written_task({**given, "action": "upsert" if "keys" in given else "append"}, "--arguments")
    assert isinstance(spec, LoadSpec), "both actions are loads"
    if spec.source.is_change_stream:
        # Their reading sets tags.
        raise InvalidSpecError(f"{spec.table}: changes of rows have no dry run, plain rows have one")
    # Without a name of its own, nothing of it was applied before.
    if spec.source.name:
        return replace(spec, is_dry_run=True)
    repeat = OnRepeat.APPLY if spec.source.files else spec.on_repeat
    return replace(spec, source=replace(spec.source, name="lake-check"), on_repeat=repeat, is_dry_run=True)


def _source(given: object) -> Source:
    try:
        return source(given, "--source")
    except InvalidSpecError as error:
        why = str(error)
        raise InvalidSpecError(why if why.startswith("--source") else f"--source: {why}") from None


def _mapping(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidSpecError(f"{name} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidSpecError(f"{name} must be a JSON object, got {text!r}")
    return value


def _report(args: Namespace) -> LoadReport:
    lake = LakeCatalogHook(args.conn_id)
    connection = lake.connection
    # In cluster mode its report lies in a folder of all runs.
    run = RunIdentity.of("lake", "check", uuid4().hex)
    spec = batch_spec(args).checked_for(connection.table_format)
    lake.refuse_for_spark([spec.table, *(each.table for each in spec.source.lake_tables.values())])
    spec = spec.framed({"catalog": connection.catalog_name, "table_format": connection.table_format, "run": run})
    target = SparkTarget.read(args.spark_conn_id, None)
    attempt = SparkSubmission.open(Job({_TASK: spec}), connection, target, run=run)
    submit = SparkSubmitOperator(task_id=_TASK, conn_id=args.spark_conn_id, name=f"lake check {spec.table}", conf={})
    start = attempt.driver_start(submit)
    try:
        failure = run_driver(submit, attempt, start)
        report = attempt.read_reports().get(_TASK)
    finally:
        attempt.close()
        start.release()
    if isinstance(report, JobFailure):
        raise report.to_error()
    if not isinstance(report, LoadReport):
        raise JobFailedError(f"the driver left no report: {failure or 'it ended without one'}")
    return report


def _lines(report: LoadReport) -> Iterator[SchemaChange | PutAsideRecord]:
    if report.plan is not None:
        yield from report.plan.schema_changes
        yield from report.plan.put_aside


def _row(line: SchemaChange | PutAsideRecord, shown: Callable[[str], str]) -> dict[str, Any]:
    if isinstance(line, PutAsideRecord):
        place = line.file if line.line is None else f"{line.file}, line {line.line}"
        return {
            "what": shown(line.error_class),
            "where": shown(place),
            "effect": "put aside",
            "why": shown(line.reason),
        }
    types = " -> ".join(each for each in (line.present, line.wanted) if each)
    kind = "additive" if line.additive else "destructive"
    return {
        "what": line.kind.value,
        "where": shown(line.column),
        "effect": f"{line.action} ({kind})",
        "why": shown(types),
    }
