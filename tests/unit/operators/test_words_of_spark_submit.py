"""Words that spark-submit gets for arguments, settings and connections, and what is refused before it starts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from tests.unit.operators.submitted import refusal

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection", "spark_connection", "job_directory")


def compaction(**arguments: Any) -> LakeCompactionOperator:
    return LakeCompactionOperator(task_id="c", **{"table": "shop.orders", "level": "full", **arguments})


DELETION: dict[str, Any] = {"table": "shop.orders", "keys_from": "k.csv", "keys": ["id"]}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("name", ["jars", "py_files", "files", "archives", "keytab"])
@pytest.mark.parametrize(
    "path",
    [
        *("gone.bin", "/gone/x.bin", "file:///gone/x.bin", "/gone/*.bin", "/gone/x.bin#alias"),
        *("file://localhost/gone/x.bin", "file:///gone/x%23.bin#alias"),
    ],
)
def test_a_file_that_the_worker_has_not_is_refused_before_anything_is_submitted(
    context: Context, words: Path, tmp_path: Path, name: str, path: str
) -> None:
    (tmp_path / "there.bin").touch()
    given = {name: path if name == "keytab" else f"{tmp_path}/there.bin,{path}"}
    refused = refusal(LakeDeleteRowsOperator(task_id="d", **{**DELETION, **given}), context)
    assert isinstance(refused, InvalidSpecError)
    assert str(refused).startswith(f"{name} has {path!r}, which this worker cannot read in '{Path.cwd()}'")
    assert not words.exists()


@pytest.mark.usefixtures("orders")
def test_files_that_the_worker_has_and_addresses_go_to_spark(context: Context, words: Path, tmp_path: Path) -> None:
    for name in ("a b.bin", "a#b.bin", "a%23b.jar"):
        (tmp_path / name).touch()
    for path in (
        *(f"{tmp_path}/a b.bin", f"{tmp_path}/*.bin", f"file:{tmp_path}/a%20b.bin", f"{tmp_path}/a b.bin#alias"),
        *(f"file://{tmp_path}/a%23b.bin", f"file://{tmp_path}/a%23b.bin#alias", f"file:{tmp_path}/a?b.bin"),
        *(f"file://localhost{tmp_path}/a%20b.bin", f"FILE:{tmp_path}/a%20b.bin", f"{tmp_path}/a%23b.jar"),
        *("s3a://bucket/gone.bin", "local:///opt/gone.bin", "hdfs:/gone.bin"),
    ):
        assert path in values_of("--archives", words_given(words, context, archives=path))


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("size", ["4gb", "4096", " 4g"])
def test_a_heap_that_java_cannot_have_is_refused_where_the_driver_is_on_the_worker(
    context: Context, words: Path, size: str
) -> None:
    for given, name in (
        ({"driver_memory": size}, "driver_memory"),
        ({"conf": {"spark.driver.memory": size}}, "spark.driver.memory"),
    ):
        refused = refusal(LakeDeleteRowsOperator(task_id="d", **DELETION, **given), context)
        assert isinstance(refused, InvalidSpecError)
        assert str(refused).startswith(f"{name} must be a size of Java such as '4g'")
    assert not words.exists()
    assert values_of("--driver-memory", words_given(words, context, driver_memory="2g")) == ["2g"]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File in which a stand-in for ``spark-submit`` leaves its words and its variable ``LAKE_X``."""
    folder, file = tmp_path / "bin", tmp_path / "words.json"
    folder.mkdir()
    program = folder / "spark-submit"
    left = "{'words': sys.argv[1:], 'x': os.environ.get('LAKE_X'), 'variables': list(os.environ)}"
    program.write_text(
        f"#!/usr/bin/env python3\nimport json, os, sys\njson.dump({left}, open({str(file)!r}, 'w'))\nsys.exit(1)\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    return file


def words_given(words: Path, context: Context, **arguments: Any) -> list[str]:
    """Return what ``spark-submit`` is called with for a deletion by keys."""
    refusal(
        LakeDeleteRowsOperator(task_id="d", table="shop.orders", keys_from="k.csv", keys=["id"], **arguments), context
    )
    given: list[str] = json.loads(words.read_text())["words"]
    return given


def values_of(option: str, given: list[str]) -> list[str]:
    return [given[at + 1] for at, word in enumerate(given) if word == option]


@pytest.mark.usefixtures("orders")
def test_numbers_become_texts_and_an_empty_text_is_an_argument_left_out(context: Context, words: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": 4, "spark.x": True}
    empty = {"properties_file": "", "files": "", "keytab": "", "name": ""}
    given = words_given(words, context, conf=conf, env_vars={"LAKE_X": 4}, **empty)
    assert json.loads(words.read_text())["x"] == "4"
    assert values_of("--conf", given) == ["spark.sql.shuffle.partitions=4", "spark.x=True"]
    assert not {"--name", "--files", "--keytab"} & set(given)


@pytest.mark.usefixtures("orders")
def test_a_connection_without_a_deploy_mode_means_client_whatever_sparks_defaults_say(
    context: Context, words: Path
) -> None:
    assert values_of("--deploy-mode", words_given(words, context)) == ["client"]
    assert values_of("--deploy-mode", words_given(words, context, deploy_mode="client")) == ["client"]


@pytest.mark.usefixtures("orders")
def test_a_worker_whose_other_tasks_use_spark_connect_submits_with_a_session_of_its_own(
    context: Context, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = {
        "SPARK_REMOTE": "sc://connect:15002",
        "SPARK_CONNECT_MODE": "1",
        "SPARK_CONNECT_MODE_ENABLED": "1",
        "SPARK_LOCAL_REMOTE": "1",
        "SPARK_API_MODE": "connect",
    }
    for name, value in connect.items():
        monkeypatch.setenv(name, value)
    words_given(words, context)
    assert not connect.keys() & set(json.loads(words.read_text())["variables"])
    assert connect.items() <= os.environ.items()


LISTS_OF_SETTINGS = {
    "spark.jars": ("--jars", "/ours.jar"),
    "spark.submit.pyFiles": ("--py-files", "airflow_lake_provider-"),
}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("setting", LISTS_OF_SETTINGS)
@pytest.mark.parametrize("place", ["conf", "properties_file", "spark-defaults.conf"])
def test_a_list_of_a_setting_is_added_to_ours_which_would_replace_it(
    context: Context, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, place: str
) -> None:
    (tmp_path / "ours.jar").touch()
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", f"{tmp_path}/ours.jar")
    (tmp_path / "conf").mkdir()
    arguments: dict[str, Any] = {}
    if place == "conf":
        arguments = {"conf": {setting: "/theirs/a,/theirs/b"}}
    else:
        file = tmp_path / ("conf/spark-defaults.conf" if place == "spark-defaults.conf" else "author.properties")
        file.write_text(f"{setting} /theirs/a,\\\n   /theirs/b\n")
        arguments = {} if place == "spark-defaults.conf" else {"properties_file": str(file)}
    option, ours = LISTS_OF_SETTINGS[setting]
    (given,) = values_of(option, words_given(words, context, **arguments))
    assert ours in given
    assert given.endswith(",/theirs/a,/theirs/b")
    own = {"--jars": "jars", "--py-files": "py_files"}[option]
    (given,) = values_of(option, words_given(words, context, **arguments, **{own: "s3a://own/c"}))
    assert given.endswith(",s3a://own/c")
    assert "theirs" not in given


@pytest.mark.usefixtures("orders")
def test_packages_of_a_site_are_added_to_ours_but_for_another_runtime_of_the_format(
    context: Context, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "")
    site = ["org.apache.hadoop:hadoop-aws:3.4.1", "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.4.0"]
    (given,) = values_of("--packages", words_given(words, context, conf={"spark.jars.packages": ",".join(site)}))
    assert given.endswith(f",{site[0]}")
    assert site[1] not in given
    # Where nothing of ours would replace it, it is Spark's own affair.
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    assert "--packages" not in words_given(words, context, conf={"spark.jars.packages": site[0]})


@pytest.mark.usefixtures("orders")
def test_a_connection_whose_form_stored_null_for_the_binary_has_the_one_of_the_path(
    context: Context, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = dict.fromkeys(["spark-binary", "queue", "deploy-mode", "namespace", "principal", "keytab"])
    connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    assert values_of("--master", words_given(words, context)) == ["local[2]"]
    following = LakeSparkSubmitHook.of_application("application_1_1", "spark_default", {})
    assert following._connection["spark_binary"] == "spark-submit"


@pytest.mark.usefixtures("orders", "words")
@pytest.mark.parametrize("given", [True, "true"])
def test_a_setting_that_tracking_on_yarn_forbids_is_refused_of_each_type(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": "http://127.0.0.1:1"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    arguments: dict[str, Any] = {"yarn_track_via_rm_api": True, "report_location": str(tmp_path / "reports")}
    conf = {"spark.yarn.submit.waitAppCompletion": given}
    context["ti"].stats_tags = {}  # type: ignore[misc]  # of a stand-in
    refused = refusal(LakeDeleteRowsOperator(task_id="d", **DELETION, conf=conf, **arguments), context)
    assert isinstance(refused, InvalidSpecError)
    assert "spark.yarn.submit.waitAppCompletion=true cannot be set for cluster mode" in str(refused)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("name", ["jars", "py_files", "archives", "keytab", "spark_binary", "properties_file"])
def test_a_path_object_stands_for_its_text(context: Context, words: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / ("bin/spark-submit" if name == "spark_binary" else "there.bin")
    file.touch()
    given = words_given(words, context, **{name: file})
    option = f"--{name.replace('_', '-')}"
    if name not in ("spark_binary", "properties_file"):
        assert values_of(option, given)[0].endswith(str(file))
    lost = {name: Path("s3a://bucket/x.bin")}
    with pytest.raises(InvalidSpecError, match=f"{name} is 's3a:/bucket/x.bin', which pathlib made of two slashes"):
        compaction(**lost)


COMMANDS = "post_submit_commands"


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        ("curl -H 'Authorization: Bearer hush' localhost/quit", " must be a list of commands, got a str"),
        ({"curl hush": 1}, " must be a list of commands, got a dict"),
        (["curl -H 'Authorization: Bearer hush' localhost/quit", 5], r"\[1\] must be a text, got a int"),
    ],
)
def test_commands_after_the_job_that_are_no_list_of_texts_are_refused_without_their_text(
    context: Context, commands: Any, words: str
) -> None:
    with pytest.raises(InvalidSpecError, match=f"^{COMMANDS}{words}$"):
        compaction(post_submit_commands=commands)
    job: Any = compaction(post_submit_commands=["echo {{ params.x }}"])
    job.post_submit_commands = commands
    assert re.match(COMMANDS + words, str(refusal(job, context)))


def test_a_command_that_a_template_left_blank_is_none(context: Context) -> None:
    job: Any = compaction(post_submit_commands=["{{ params.x or '' }}", "echo b", " "])
    job.render_template_fields({**context, "params": {"x": None}})
    job.read_spark_arguments()
    assert job.post_submit_commands == ["echo b"]
    job.post_submit_commands = [""]
    job.read_spark_arguments()
    assert not job.post_submit_commands
