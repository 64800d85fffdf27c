"""``airflow lake check --source`` through Airflow's own command line, with a driver that is played."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk.exceptions import AirflowException
from pyiceberg.table import Table

from airflow_lake_provider.cli import batch_check
from airflow_lake_provider.cli.command_process import printable
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.batch_plan import BatchPlan, PutAsideRecord, SchemaChange, SchemaChangeKind
from airflow_lake_provider.contracts.reports.job import AppendReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_to_json
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.spec_codec import job_from_plain
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

PLAN = BatchPlan(
    schema_changes=(
        SchemaChange(kind=SchemaChangeKind.WIDEN_TYPE, column="a.n", present="int", wanted="bigint"),
        SchemaChange(kind=SchemaChangeKind.CHANGE_TYPE, column="m", present="int", wanted="string", action="refuse"),
    ),
    put_aside=(PutAsideRecord(file="/in/1.jsonl", line=3, error_class="LOST_VALUE", reason="in n"),),
    refused="column m is int and got string",
)
REPORT = AppendReport(table="shop.orders", outcome=Outcome.PLANNED, reason="a run would refuse it", plan=PLAN)


def parsed(*arguments: str) -> Any:
    return get_parser().parse_args(["lake", "check", "shop.orders", *arguments])


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Play a driver that leaves an answer; note what it was sent."""
    played: dict[str, Any] = {"answer": REPORT, "error": None}

    def play(_submit: Any, attempt: Any, _start: Any) -> AirflowException | None:
        job = job_from_plain(json.loads(attempt.files.spec.read_text()))
        (played["spec"],) = job.tasks.values()
        if played["answer"] is not None:
            attempt.files.report.write_text(reports_to_json({"check": played["answer"]}))
        error: AirflowException | None = played["error"]
        return error

    monkeypatch.setattr(batch_check, "run_driver", play)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    return played


def test_it_prints_the_plan_of_a_dry_run_and_fails_where_a_run_would(
    orders: Table, driver: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    given = parsed("--source", "/in/*.jsonl", "--output", "plain")
    with pytest.raises(SystemExit) as refused:
        given.func(given)
    assert refused.value.code == 1
    printed = capsys.readouterr().out
    for words in ("widen-type", "a.n", "evolve (additive)", "refuse (destructive)", "line 3", "put aside", "in n"):
        assert words in printed
    assert isinstance(driver["spec"], AppendSpec)
    assert driver["spec"].is_dry_run
    driver["answer"] = AppendReport(table="shop.orders", outcome=Outcome.PLANNED, reason="", plan=BatchPlan())
    given = parsed("--source", "/in/*.jsonl", "--keys", "id", "--output", "json")
    given.func(given)
    (report,) = json.loads(capsys.readouterr().out)
    assert report["plan"] == {"schema_changes": [], "put_aside": [], "refused": None, "upserts": None, "deletes": None}
    assert isinstance(driver["spec"], UpsertSpec)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (JobFailure(error="BadInputError", message="no files", traceback=""), None, "BadInputError: no files"),
        (None, AirflowException("Cannot execute"), "JobFailedError: the driver left no report: Cannot execute"),
    ],
)
def test_a_driver_that_fails_is_said(
    orders: Table, driver: dict[str, Any], answer: Any, error: AirflowException | None, words: str
) -> None:
    driver.update(answer=answer, error=error)
    given = parsed("--source", "/in/*.jsonl")
    with pytest.raises(SystemExit, match=words):
        given.func(given)


@pytest.mark.parametrize("output", ["table", "json"])
def test_what_a_driver_says_of_a_file_gives_a_terminal_nothing_to_obey(
    orders: Table, driver: dict[str, Any], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "no files: \x1b]0;x\x07\x9b2J\u202e\udc80"
    given = parsed("--source", "/in/*.jsonl", "--output", output)
    driver["answer"] = AppendReport(table="shop.orders", outcome=Outcome.PLANNED, reason=said, plan=BatchPlan())
    given.func(given)
    driver["answer"] = JobFailure(error="BadInputError", message=said, traceback="")
    with pytest.raises(SystemExit, match="BadInputError: no files: ") as refused:
        given.func(given)
    for shown in (capsys.readouterr().out.replace("\n", ""), str(refused.value.code)):
        assert "no files: " in shown
        assert shown.isprintable()


def test_the_arguments_are_those_of_the_operator() -> None:
    spec: LoadSpec = batch_check.batch_spec(
        parsed(
            "--source",
            '{"type": "files", "path": "/in/*", "format": "csv"}',
            "--arguments",
            '{"dead_letter": {}, "keys": ["id"]}',
        )
    )
    assert isinstance(spec, UpsertSpec)
    assert (spec.keys, spec.source) == (("id",), Files("/in/*", format="csv", name="lake-check"))
    assert spec.dead_letter is not None
    # Of a path that a task has loaded, too.
    assert spec.on_repeat is OnRepeat.APPLY
    with pytest.raises(InvalidSpecError, match="changes of rows have no dry run"):
        batch_check.batch_spec(parsed("--source", '{"type": "changes", "table": "shop.lines"}', "--keys", "id"))
    spec = batch_check.batch_spec(parsed("--source", "/in/*.json", "--arguments", '{"action": "overwrite-partitions"}'))
    assert isinstance(spec, AppendSpec)
    with pytest.raises(InvalidSpecError, match="no dry run"):
        OverwritePartitionsSpec(table="a.b", source=Files("/in/*.json"), is_dry_run=True)
    for given, words in (("[1]", "JSON object"), ("{", "no JSON"), ('{"colour": 1}', "colour")):
        with pytest.raises(InvalidSpecError, match=words):
            batch_check.batch_spec(parsed("--source", "/in/*.json", "--arguments", given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('{"type": "filez"}', "--source needs a type, one of 'files'"),
        ('{"type": "files", "path": "/in/*", "format": "jsn"}', "--source: Files.format must be one of"),
        ("/in/orders", "--source: the path '/in/orders' does not tell a format"),
    ],
)
def test_what_is_wrong_with_the_source_is_said_of_the_source(given: str, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"^{re.escape(words)}"):
        batch_check.batch_spec(parsed("--source", given))


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--source", ""], "InvalidSpecError: --source must be a path of files, or a source as JSON, got ''"),
        (["--arguments", "{}"], "InvalidSpecError: --source must be .*, got None"),
        (["--source", "/in/*.json", "--arguments", ""], "InvalidSpecError: --arguments is no JSON"),
    ],
)
def test_a_variable_of_the_shell_that_is_not_set_passes_no_batch(given: list[str], words: str) -> None:
    arguments = parsed(*given)
    with pytest.raises(SystemExit, match=words):
        arguments.func(arguments)


def test_an_error_of_several_lines_is_printed_in_them() -> None:
    said = "loads:f failed:\n  File 'l.py'\x1b[2J, line 3\r\n"
    assert printable(said) == "loads:f failed:\n  File 'l.py' [2J, line 3 \n"
