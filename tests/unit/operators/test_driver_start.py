from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.get_provider_info import get_provider_info
from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.driver_start import DriverStart, spark_release
from airflow_lake_provider.operators.spark_submission import spark_submit_arguments
from airflow_lake_provider.submission.spark_installation import ONE_TIER, PARALLEL, bundled_spark_home
from tests.unit.operators.planned_start import CONNECTION, LOCAL, installation, planned
from tests.unit.operators.submitted import opened

STANDALONE = SparkTarget(master="spark://host:7077", cluster_mode=False)
PROCESSES = SparkTarget(master="local-cluster[2,1,1024]", cluster_mode=False)
CLUSTER = SparkTarget(master="yarn", cluster_mode=True)

__all__ = ["installation"]
pytestmark = pytest.mark.usefixtures("spark_connection")


def test_a_driver_on_this_machine_has_the_jars_on_its_class_path_and_no_copy_of_them(installation: Path) -> None:
    start = planned()
    jar = f"{installation}/ours/iceberg.jar"
    assert start.class_path == f"{installation}/spark/jars/*:{jar}"
    assert (start.jars, start.packages) == ((), ())
    assert start.makes_archive
    # Executors on other machines get them as before, and executors that are other processes.
    for target in (STANDALONE, PROCESSES):
        start.release()
        elsewhere = planned(target)
        assert (elsewhere.class_path, elsewhere.jars) == (start.class_path, (jar,))


def test_a_driver_in_the_cluster_or_with_the_setting_off_starts_as_before(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = DriverStart(jars=(f"{installation}/ours/iceberg.jar",), attempt="a")
    assert planned(CLUSTER) == plain
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", "off")
    assert planned(STANDALONE) == plain
    assert planned() == replace(plain, options=PARALLEL)


def test_packages_and_an_authors_jars_keep_ours_off_the_class_path(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = f"{installation}/ours/iceberg.jar"
    for arguments in (
        {"jars": "driver.jar"},
        {"packages": "org:thing:1"},
        {"conf": {"spark.jars": "x.jar"}},
        {"settings": "spark.jars.packages org:thing:1\n"},
    ):
        start = planned(**arguments)
        assert (start.jars, start.class_path, start.makes_archive) == ((jar,), None, True), arguments
        start.release()
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "")
    start = planned()
    assert (start.packages, start.class_path) == (CONNECTION.spark_packages(), None)


@pytest.mark.parametrize("given", ["absent.jar", "Provided", "empty", "ours/iceberg.jar, absent.jar", ","])
def test_jars_that_are_not_there_are_refused_by_the_name_of_the_setting(
    given: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installation / "empty").mkdir()
    monkeypatch.chdir(installation)
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", given)
    # Also in cluster mode the files lie on the machine that submits.
    for target in (LOCAL, CLUSTER):
        with pytest.raises(InvalidSpecError, match=r"\[lake\] spark_jars .*'provided'") as refused:
            planned(target)
        assert repr(given.rpartition(", ")[2]) in str(refused.value)


@pytest.mark.parametrize("pattern", ["*.jar", "iceberg-?.jar", "iceberg-[12].jar", "iceberg-[^3].jar"])
def test_a_glob_stands_for_the_jars_that_spark_finds_by_it(
    pattern: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installation / "by [hand]"
    (folder / "a.jar").mkdir(parents=True)
    jars = [f"{folder}/iceberg-{number}.jar" for number in (1, 2)]
    for jar in jars:
        Path(jar).write_text("")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", pattern)
    names = planned(CLUSTER).jars
    assert [str(Path(name).resolve()) for name in names] == jars
    # A JVM takes no such glob on its class path.
    assert planned().class_path == ":".join([f"{installation}/spark/jars/*", *names])


@pytest.mark.parametrize("pattern", ["none-*.jar", "/nowhere/*.jar", "ours/[ab]*"])
def test_a_glob_that_matches_no_file_is_refused_as_one(
    pattern: str, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(installation)
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", f"ours, {pattern}")
    for target in (LOCAL, CLUSTER):
        with pytest.raises(InvalidSpecError) as refused:
            planned(target)
        assert f"[lake] spark_jars has {pattern!r}, a glob that matches no file; write" in str(refused.value)


def test_a_path_with_the_signs_of_a_glob_is_a_path_where_it_is_there(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = installation / "iceberg[1].jar"
    jar.write_text("")
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", str(jar))
    assert planned(CLUSTER).jars == (str(jar),)


def test_an_address_of_a_jar_stays_as_it_is_written_and_off_the_class_path(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = ("hdfs://nn:8020/jars/iceberg.jar", "s3a://jars/driver.jar", "local:/opt/iceberg.jar")
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", ", ".join([*addresses, f"{installation}/ours", ""]))
    for target in (LOCAL, CLUSTER):
        start = planned(target)
        assert start.jars == (*addresses, f"{installation}/ours/iceberg.jar")
        assert start.class_path is None
    assert planned(STANDALONE).archive is not None


LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("archive", ["on", "off"])
@pytest.mark.parametrize(
    ("target", "is_here"), [(LOCAL, True), (PROCESSES, True), (STANDALONE, False), (CLUSTER, False)]
)
def test_only_a_driver_that_no_other_machine_has_to_reach_listens_on_loopback(
    monkeypatch: pytest.MonkeyPatch, target: SparkTarget, is_here: bool, archive: str
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP")
    if archive == "off":
        monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", archive)
    assert planned(target).environment == (LOOPBACK if is_here else {})


@pytest.mark.parametrize(
    "told", ["conf", "host in conf", "properties file", "spark-defaults", "worker", "env_vars", "nobody"]
)
def test_a_driver_that_is_told_where_to_listen_listens_there(
    installation: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    arguments: dict[str, Any] = {}
    monkeypatch.delenv("SPARK_LOCAL_IP")
    if told == "conf":
        arguments = {"conf": {"spark.driver.bindAddress": "0.0.0.0"}}
    elif told == "host in conf":
        arguments = {"conf": {"spark.driver.host": "worker-7"}}
    elif told == "properties file":
        arguments = {"settings": "spark.driver.host worker-7\n"}
    elif told == "spark-defaults":
        (installation / "spark" / "conf").mkdir()
        (installation / "spark" / "conf" / "spark-defaults.conf").write_text("spark.driver.bindAddress=10.0.0.7\n")
    elif told == "worker":
        monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    elif told == "env_vars":
        arguments = {"env_vars": {"SPARK_LOCAL_IP": "10.0.0.7"}}
    assert planned(**arguments).environment == (LOOPBACK if told == "nobody" else {})


def test_long_waits_of_a_driver_are_named_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    first = planned()
    assert [sentence for sentence in first.waits() if "archive of Spark's classes" in sentence]
    # Another one that starts meanwhile makes none.
    assert planned().waits() == []
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "")
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", "off")
    assert [sentence for sentence in planned().waits() if "Ivy" in sentence and "iceberg-spark-runtime" in sentence]


@pytest.mark.parametrize(
    "broken", ["class path", "site", "binary", "own archive", "no java", "shared folder", "read-only"]
)
def test_what_an_archive_cannot_go_with_leaves_the_driver_as_it_was(
    installation: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    arguments: dict[str, Any] = {}
    if broken == "class path":
        arguments = {"driver_class_path": "/opt/driver"}
    elif broken == "site":
        (installation / "spark" / "conf").mkdir()
        defaults = installation / "spark" / "conf" / "spark-defaults.conf"
        defaults.write_text("# the site's\nspark.driver.extraClassPath  /opt/driver/*\n")
    elif broken == "binary":
        connection = {"conn_type": "spark", "host": "local[2]", "extra": {"spark-binary": "spark3-submit"}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    elif broken == "own archive":
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:SharedArchiveFile=/opt/spark.jsa")
    elif broken == "no java":
        monkeypatch.setenv("JAVA_HOME", "/nowhere")
    elif broken == "shared folder":
        (installation / "archives").mkdir()
        (installation / "archives").chmod(0o777)
    else:
        monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", "/proc/archives")
    start = planned(**arguments)
    # The settings of another Spark are not read, and may name a collector.
    options = "" if broken == "binary" else PARALLEL
    assert start == DriverStart(jars=(f"{installation}/ours/iceberg.jar",), attempt="a", options=options)


@pytest.mark.parametrize("where", ["SPARK_HOME", "python's folder", "no folder"])
def test_a_connection_as_airflows_form_stores_it_starts_the_driver_as_one_without_an_extra(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = get_provider_info()  # type: ignore[no-untyped-call]  # of the official provider
    (form,) = (each for each in info["connection-types"] if each["connection-type"] == "spark")
    schemas = {name: each["schema"] for name, each in form["conn-fields"].items()}
    stored = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    assert stored["spark-binary"] == DEFAULT_SPARK_BINARY
    if where != "SPARK_HOME":
        monkeypatch.delenv("SPARK_HOME")
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent if where == "python's folder" else tmp_path))
    starts = []
    for extra in ({}, stored):
        connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
        starts.append((planned(is_short=True), spark_release(operator)))
        starts[-1][0].release()
    assert starts[0] == starts[1]
    assert starts[1][0].makes_archive


@pytest.mark.usefixtures("lake_connection", "job_directory")
@pytest.mark.parametrize("extra", [{}, {"spark-binary": DEFAULT_SPARK_BINARY}])
def test_the_bundled_spark_is_called_where_the_path_has_none(
    extra: dict[str, str], context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As of a worker that is started by the path of its interpreter.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME")
    connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
    attempt = opened(operator, context, LOCAL)
    home = bundled_spark_home()
    assert home is not None
    arguments = spark_submit_arguments(attempt, operator, attempt.driver_start(operator))
    assert arguments["_spark_binary"] == str(home / "bin" / "spark-submit")


def test_an_archive_is_kept_after_a_job_that_ended_well(installation: Path) -> None:
    start = planned()
    (made,) = (option.partition("=")[2] for option in start.options.split() if "ArchiveClassesAtExit" in option)
    Path(made).write_bytes(b"classes")
    start.accept(is_whole=True)
    start.release()
    (kept,) = (installation / "archives").iterdir()
    assert kept.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={kept} " in planned().options


def test_the_options_of_others_come_after_ours_and_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseZGC")
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
    hook = LakeSparkSubmitHook.adopt(
        SparkSubmitOperator._get_hook(operator), lambda: None, lambda _: None, java_options="-Xshare:auto"
    )
    for _ in range(2):
        hook._build_spark_submit_command("job.py")
    assert hook._env is not None
    assert hook._env["SPARK_SUBMIT_OPTS"] == "-Xshare:auto -XX:+UseZGC"


def test_only_a_driver_that_runs_tasks_gets_the_parallel_collector() -> None:
    for target, gets in ((LOCAL, True), (STANDALONE, False), (PROCESSES, False), (CLUSTER, False)):
        start = planned(target)
        assert (PARALLEL in start.options.split()) is gets, target
        start.release()


def test_only_a_driver_of_a_short_job_that_runs_tasks_compiles_with_one_tier() -> None:
    targets = ((LOCAL, True), (STANDALONE, False), (PROCESSES, False), (CLUSTER, False))
    for target, is_short in ((target, is_short) for target in targets for is_short in (True, False)):
        start = planned(target[0], is_short=is_short)
        assert (ONE_TIER in start.options) is (target[1] and is_short), (target, is_short)
        start.release()


@pytest.mark.parametrize(
    ("option", "ours"),
    [
        ("-XX:+UseG1GC", PARALLEL),
        ("-Xmx4g -XX:+UseZGC", PARALLEL),
        ("-XX:-UseParallelGC", PARALLEL),
        ("-XX:Flags=/opt/flags", PARALLEL),
        ("-XX:TieredStopAtLevel=4", ONE_TIER),
        ("-XX:-TieredCompilation", ONE_TIER),
        ("-Xss4m -XX:ReservedCodeCacheSize=64m", ONE_TIER),
        ("-Xint", ONE_TIER),
        ("-XX:VMOptionsFile=/opt/options", ONE_TIER),
    ],
)
@pytest.mark.parametrize("where", ["SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "author", "settings", "site"])
def test_a_collector_or_compiler_that_another_chose_is_left_alone(
    installation: Path, monkeypatch: pytest.MonkeyPatch, where: str, option: str, ours: str
) -> None:
    arguments: dict[str, Any] = {}
    if where == "author":
        arguments = {"conf": {"spark.driver.extraJavaOptions": option}}
    elif where == "settings":
        arguments = {"settings": f"spark.driver.defaultJavaOptions {option}\n"}
    elif where == "site":
        (installation / "spark" / "conf").mkdir()
        defaults = installation / "spark" / "conf" / "spark-defaults.conf"
        defaults.write_text(f"spark.driver.extraJavaOptions {option}\n")
    else:
        monkeypatch.setenv(where, option)
    assert ours not in planned(**arguments, is_short=True).options


@pytest.mark.parametrize("name", ["spark-env.sh", "@options"])
def test_options_in_a_file_that_is_not_read_count_as_a_choice(
    installation: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    conf = installation / "spark" / "conf"
    conf.mkdir()
    if name == "spark-env.sh":
        (conf / name).write_text("SPARK_SUBMIT_OPTS='-XX:+UseG1GC'\n")
    else:
        monkeypatch.setenv("JDK_JAVA_OPTIONS", name)
    options = planned(is_short=True).options
    assert PARALLEL not in options
    assert ONE_TIER not in options
