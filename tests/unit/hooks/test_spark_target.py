"""Spark connections say where a driver runs, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkTarget


def set_spark(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **fields}))


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of Kubernetes, as the official hook looks for it."""
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize(
    ("fields", "deploy_mode", "expected"),
    [
        ({"host": "local[2]"}, None, SparkTarget(master="local[2]", cluster_mode=False)),
        ({"host": "yarn", "extra": {"deploy-mode": "cluster"}}, None, SparkTarget(master="yarn", cluster_mode=True)),
        (
            {"host": "yarn", "extra": {"deploy-mode": "cluster"}},
            "client",
            SparkTarget(master="yarn", cluster_mode=False),
        ),
        ({"host": "k8s://https://h:443"}, "cluster", SparkTarget(master="k8s://https://h:443", cluster_mode=True)),
        ({"host": "h", "port": 7077}, None, SparkTarget(master="spark://h:7077", cluster_mode=False)),
    ],
)
def test_a_spark_connection_says_where_the_driver_runs(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], deploy_mode: str | None, expected: SparkTarget
) -> None:
    set_spark(monkeypatch, **fields)
    assert SparkTarget.read("spark_default", deploy_mode) == expected


@pytest.mark.parametrize("extra", ["{'deploy-mode': 'cluster'}", '["deploy-mode"]'])
def test_an_extra_that_is_no_object_is_refused_and_no_job_of_another_mode(
    monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    set_spark(monkeypatch, host="yarn", extra=extra)
    with pytest.raises(
        InvalidConnectionError, match=r"connection 'spark_default': its extra is (not JSON|a JSON list)"
    ):
        SparkTarget.read("spark_default", None)


@pytest.mark.parametrize("fields", [{"host": "spark://h:7077"}, {"host": "h", "port": 7077}])
def test_python_in_cluster_mode_on_a_standalone_master_is_refused(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    set_spark(monkeypatch, **fields, extra={"deploy-mode": "cluster"})
    with pytest.raises(InvalidSpecError, match=r"'spark_default'.*client mode"):
        SparkTarget.read("spark_default", None)


@pytest.mark.parametrize("host", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_cluster_mode_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    set_spark(monkeypatch, host=host)
    with pytest.raises(InvalidSpecError, match=r"'spark_default': 'local.*' has no cluster; remove the deploy mode"):
        SparkTarget.read("spark_default", "cluster")


@pytest.mark.parametrize(("extra", "given"), [("Cluster", None), ("client", "yarn-cluster")])
def test_a_deploy_mode_that_spark_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, extra: str, given: str | None
) -> None:
    set_spark(monkeypatch, host="yarn", extra={"deploy-mode": extra})
    with pytest.raises(InvalidSpecError, match=f"must be 'client' or 'cluster', got {given or extra!r}"):
        SparkTarget.read("spark_default", given)


def test_a_spark_connection_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConnectionError, match="Spark connection 'spark_elsewhere' does not exist"):
        SparkTarget.read("spark_elsewhere", None)


@pytest.mark.parametrize(
    "fields",
    [
        *({}, {"host": " "}, {"host": " local[1]"}, {"host": "yarn-client"}, {"port": 7077}),
        *({"host": "local[x]"}, {"host": "local[0]"}, {"host": "local[2,x]"}, {"host": "local-cluster[2,1]"}),
        *({"host": "spark://h"}, {"host": "spark://h:7077/"}, {"host": "spark://a:7077,b"}, {"host": "spark://u@h:1"}),
        # Java reads no host with _, which names of Docker often have.
        *({"host": "spark://s_m:7077"}, {"host": "local[2]", "port": 4040}, {"host": "spark://h:1", "port": 2}),
    ],
)
def test_a_host_that_is_no_master_is_refused_with_masters_that_are(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    set_spark(monkeypatch, **fields)
    with pytest.raises(InvalidConnectionError, match=r"'spark_default': its host makes the master '.*expected 'local"):
        SparkTarget.read("spark_default", None)


@pytest.mark.parametrize(
    "host",
    [
        *("local", "local[*]", "local[2,3]", "local[*, 3]", "local-cluster[2,1,1024]", "local-cluster[2, 1, 1024]"),
        *("spark://a:7077,b:7077", "spark://a.b-c.example:7077", "spark://10.0.0.7:7077", "spark://[::1]:7077", "yarn"),
    ],
)
def test_each_master_of_spark_is_taken(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    set_spark(monkeypatch, host=host)
    assert SparkTarget.read("spark_default", None).master == host
    assert spark_submit.SparkSubmitHook(conn_id="spark_default")._connection["master"] == host


@pytest.mark.parametrize("host", ["h", "spark://h"])
def test_a_port_of_its_own_is_part_of_the_master(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    set_spark(monkeypatch, host=host, port=7077)
    assert SparkTarget.read("spark_default", None).master == "spark://h:7077"
    assert spark_submit.SparkSubmitHook(conn_id="spark_default")._connection["master"] == "spark://h:7077"


def test_kubernetes_without_its_provider_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    set_spark(monkeypatch, host="k8s://https://h:443")
    with pytest.raises(UnsupportedError, match="with the extra 'kubernetes'"):
        SparkTarget.read("spark_default", "client")


@pytest.mark.parametrize("name", ["queue", "deploy-mode", "spark-binary", "namespace", "principal", "keytab"])
def test_an_entry_of_the_extra_that_is_no_text_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    set_spark(monkeypatch, host="yarn", extra={name: 4711})
    with pytest.raises(InvalidConnectionError, match=f"'{name}' must be a text") as refused:
        SparkTarget.read("spark_default", None)
    assert ("4711" in str(refused.value)) == (name != "keytab")


@pytest.mark.parametrize("port", ["x", "", None, -1, 0, 65536, True, 6066.5, [6066], "6066 "])
def test_a_rest_port_that_is_no_port_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, port: Any) -> None:
    set_spark(monkeypatch, host="local[1]", extra={"rest-port": port})
    with pytest.raises(InvalidConnectionError, match="'spark_default': 'rest-port' must be the number of a port") as no:
        SparkTarget.read("spark_default", None)
    assert f"got {port!r}" in str(no.value)


@pytest.mark.parametrize("port", ["6066", 6066, 1, 65535])
def test_a_rest_port_is_a_number_or_its_digits(monkeypatch: pytest.MonkeyPatch, port: Any) -> None:
    set_spark(monkeypatch, host="local[1]", extra={"rest-port": port})
    assert SparkTarget.read("spark_default", None).master == "local[1]"
    assert spark_submit.SparkSubmitHook(conn_id="spark_default")._connection["rest_port"] == int(port)


@pytest.mark.parametrize(
    ("keytab", "principal", "is_kept"),
    [("aGVsbG8=", "airflow@R", True), ("aGVsbG8=", "airflow/host@R", False), ("secret!", "airflow@R", False)],
)
def test_no_job_is_submitted_without_the_keytab_of_its_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keytab: str, principal: str, is_kept: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    set_spark(monkeypatch, host="yarn", extra={"keytab": keytab, "principal": principal})
    official = spark_submit.SparkSubmitHook(conn_id="spark_default")
    hook = LakeSparkSubmitHook.adopt(official, lambda: None, lambda _: None)
    if is_kept:
        words = hook._build_spark_submit_command("job.py")
        assert words[words.index("--keytab") + 1] == str(tmp_path / "airflow_keytab-airflow@R")
    else:
        with pytest.raises(InvalidConnectionError, match="its keytab could not be put into a file") as refused:
            hook._build_spark_submit_command("job.py")
        assert keytab not in str(refused.value)
