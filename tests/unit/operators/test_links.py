"""Links to an application: while it runs and afterwards, from what spark-submit says, without a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk._shared.module_loading import import_string

from airflow_lake_provider.contracts.errors import JobFailedError
from airflow_lake_provider.get_provider_info import get_provider_info
from airflow_lake_provider.hooks.lake_spark_submit import SparkApplication, SparkTarget, web_address
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.links import SparkApplicationLink, YarnApplicationLink
from tests.unit.operators.submitted import run_in_spark

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("job_directory", "lake_connection")
EXTRA = {
    "spark_history_url": "https://user:hush@history.example.com/spark/?token=hush",
    "yarn_resourcemanager_webapp_address": "http://rm:8088/",
}
SPARK, YARN = SparkApplicationLink(), YarnApplicationLink()


@pytest.fixture
def pushed(context: Context) -> list[tuple[str, str]]:
    """What the task left in XCom."""
    found: list[tuple[str, str]] = []
    context["ti"].xcom_push = lambda key, value: found.append((key, value))  # type: ignore[method-assign]
    return found


def job(monkeypatch: pytest.MonkeyPatch, host: str, lines: list[str], **extra: str) -> LakeCompactionOperator:
    """An operator whose spark-submit says these lines and ends without a report."""
    connection = {"conn_type": "spark", "host": host, "extra": {**EXTRA, **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    def execute(task: LakeCompactionOperator, _: Context) -> None:
        task._hook = task._get_hook()
        task._before_submit()
        task._hook._process_spark_submit_log(iter(lines))

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    return LakeCompactionOperator(task_id="c", table="shop.orders")


def run(task: LakeCompactionOperator, context: Context) -> tuple[str, str]:
    """Return both links as Airflow keeps them at the end."""
    with pytest.raises(JobFailedError):
        run_in_spark(task, context)
    return SPARK.get_link(task, ti_key=context["ti"]), YARN.get_link(task, ti_key=context["ti"])  # type: ignore[arg-type]


def test_a_driver_on_the_worker_is_linked_while_it_runs_and_at_the_history_server_afterwards(
    monkeypatch: pytest.MonkeyPatch, context: Context, pushed: list[tuple[str, str]]
) -> None:
    lines = ["WARN a line", "[lake] application local-1763, Spark UI http://worker-3:4040", "[lake] session: 2.0 s"]
    links = run(job(monkeypatch, "local[2]", lines), context)
    assert pushed == [(SPARK.xcom_key, "http://worker-3:4040")]
    assert links == ("https://history.example.com/spark/history/local-1763", "")


def test_an_application_on_yarn_is_linked_at_both(
    monkeypatch: pytest.MonkeyPatch, context: Context, pushed: list[tuple[str, str]], tmp_path: Any
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__REPORT_LOCATION", str(tmp_path / "reports"))
    line = "INFO impl.YarnClientImpl: Submitted application application_1763_0042"
    task = job(monkeypatch, "yarn", [line, f"{line} again"], **{"deploy-mode": "cluster"})
    links = run(task, context)
    expected = (
        "https://history.example.com/spark/history/application_1763_0042",
        "http://rm:8088/cluster/app/application_1763_0042",
    )
    assert links == expected
    assert pushed == [(SPARK.xcom_key, expected[0]), (YARN.xcom_key, expected[1])]


def test_an_application_that_an_earlier_try_started_is_linked_too(
    monkeypatch: pytest.MonkeyPatch, context: Context, pushed: list[tuple[str, str]]
) -> None:
    task = job(monkeypatch, "yarn", [])
    monkeypatch.setattr(SparkSubmitOperator, "poll_until_complete", lambda *_: None)
    task.link_to(SparkTarget.read("spark_default", "cluster"), context)
    task.poll_until_complete("application_1763_0042", context)
    assert YARN.get_link(task, ti_key=context["ti"]).endswith("/application_1763_0042")  # type: ignore[arg-type]
    assert len(pushed) == 2


def test_without_addresses_or_an_application_there_is_no_link(
    monkeypatch: pytest.MonkeyPatch, context: Context, pushed: list[tuple[str, str]]
) -> None:
    named = ["[lake] application local-1763"]
    nowhere = {"spark_history_url": "", "yarn_resourcemanager_webapp_address": "javascript:alert(1)"}
    assert run(job(monkeypatch, "local[2]", named, **nowhere), context) == ("", "")
    assert run(job(monkeypatch, "local[2]", ["no application"]), context) == ("", "")
    assert pushed == []
    untouched = LakeCompactionOperator(task_id="c", table="shop.orders")
    assert SPARK.get_link(untouched, ti_key=context["ti"]) == ""  # type: ignore[arg-type]


def test_a_link_that_cannot_be_kept_fails_no_task(monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
    def refuse(key: str, value: str) -> None:
        raise OSError("the API server is away")

    context["ti"].xcom_push = refuse  # type: ignore[method-assign]
    task = job(monkeypatch, "local[2]", ["[lake] application local-1763"])
    assert run(task, context)[0].endswith("/local-1763")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://h:18080/", "http://h:18080"),
        ("https://user:hush@h/proxy?a=b#c", "https://h/proxy"),
        ("ftp://h", None),
        ("javascript:alert(1)", None),
        # As Hadoop writes it, and Airflow's hook takes it.
        (" rm.example.com:8088 ", "http://rm.example.com:8088"),
        ("h", "http://h"),
        ("", None),
        ("http://", None),
        ("http://[", None),
        ("http:/h", None),
        ("http://h:", None),
        (None, None),
        (18080, None),
    ],
)
def test_a_link_is_an_address_of_http_without_a_secret(given: object, expected: str | None) -> None:
    assert web_address(given) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "[lake] application app-2026-0001, Spark UI http://h:4040\n",
            SparkApplication("app-2026-0001", "http://h:4040"),
        ),
        ("[lake] application local-1", SparkApplication("local-1")),
        ("[lake] application local-1, Spark UI javascript:alert(1)", SparkApplication("local-1")),
        ("a row says: [lake] application local-1", None),
        ("[lake] application ../../x", None),
    ],
)
def test_only_the_drivers_own_line_names_an_application(line: str, expected: SparkApplication | None) -> None:
    assert SparkApplication.in_line(line) == expected


def test_airflow_is_told_of_every_link_of_the_operators() -> None:
    told = {import_string(name) for name in get_provider_info()["extra-links"]}
    assert told == {type(link) for link in LakeCompactionOperator.operator_extra_links}
    assert len({link.name for link in LakeCompactionOperator.operator_extra_links}) == len(told)
