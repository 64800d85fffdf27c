"""Spark connections say where a driver runs, or are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget


def set_spark(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **fields}))


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
        ({"host": "h", "port": 7077}, None, SparkTarget(master="spark://h", cluster_mode=False)),
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


@pytest.mark.parametrize(("extra", "given"), [("Cluster", None), ("client", "yarn-cluster"), (True, None)])
def test_a_deploy_mode_that_spark_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, extra: object, given: str | None
) -> None:
    set_spark(monkeypatch, host="yarn", extra={"deploy-mode": extra})
    with pytest.raises(InvalidSpecError, match=f"must be 'client' or 'cluster', got {given or extra!r}"):
        SparkTarget.read("spark_default", given)


def test_a_spark_connection_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConnectionError, match="'spark_elsewhere' does not exist"):
        SparkTarget.read("spark_elsewhere", None)
