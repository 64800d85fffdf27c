"""The command for Spark on Kubernetes, word for word. No cluster has run it."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.spark_submission import SparkSubmission
from airflow_lake_provider.submission.job_files import APPLICATION
from tests.unit.operators.submitted import opened

if TYPE_CHECKING:
    from airflow.sdk import Context

REPOSITORY = Path(__file__).parents[3]
MASTER = "k8s://https://kubernetes.example.com:443"
IMAGE = "registry.example.com/lake-spark:4.1"
UPLOADS = "s3a://lake-uploads/airflow"
# As in the table "Spark Properties" of Spark's page "Running Spark on Kubernetes".
DOCUMENTED = {
    "spark.kubernetes.container.image",
    "spark.kubernetes.driverEnv.",
    "spark.kubernetes.file.upload.path",
    # What Spark sets by itself for a driver in Python.
    "spark.kubernetes.memoryOverheadFactor",
    "spark.kubernetes.namespace",
    "spark.kubernetes.submission.waitAppCompletion",
}

pytestmark = pytest.mark.usefixtures("lake_connection", "job_directory")


def command(context: Context, tmp_path: Path, mode: str, tracked: bool) -> tuple[list[str], SparkSubmission]:
    """Return the command of the operator in docs/how-to/cluster-mode.md, with a variable for the driver."""
    job = LakeCompactionOperator(
        task_id="compact_on_kubernetes",
        table="shop.orders",
        report_location=str(tmp_path / "reports"),
        conf={"spark.kubernetes.container.image": IMAGE, "spark.kubernetes.file.upload.path": UPLOADS},
        env_vars={"TZ": "UTC"},
        track_driver_via_k8s_api=tracked,
    )
    target = SparkTarget.read("spark_default", None)
    assert target == SparkTarget(master=MASTER, cluster_mode=mode == "cluster")
    job._attempt = opened(job, context, target)
    return job._get_hook()._build_spark_submit_command(job.application), job._attempt


@pytest.fixture
def provided_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    # The official hook asks whether the client of Kubernetes is there, which a command does not need.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)


@pytest.mark.usefixtures("provided_jars")
@pytest.mark.parametrize(("mode", "tracked"), [("client", False), ("cluster", False), ("cluster", True)])
def test_the_command_has_spark_properties_for_the_namespace_the_image_and_the_variables(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, tracked: bool
) -> None:
    spark = {"conn_type": "spark", "host": MASTER, "extra": {"deploy-mode": mode, "namespace": "spark"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    words, attempt = command(context, tmp_path, mode, tracked)
    files = attempt.files
    shipped = ["--files", str(files.spec)] if mode == "cluster" else []
    unattended = ["--conf", "spark.kubernetes.submission.waitAppCompletion=false"] if tracked else []
    spec = "spec.json" if mode == "cluster" else str(files.spec)
    assert Path(words[0]).name == "spark-submit"
    assert words[1:] == [
        *("--master", MASTER),
        *("--conf", f"spark.kubernetes.container.image={IMAGE}"),
        *("--conf", f"spark.kubernetes.file.upload.path={UPLOADS}"),
        *("--conf", "spark.kubernetes.driverEnv.TZ=UTC"),
        *("--conf", "spark.kubernetes.namespace=spark"),
        *("--properties-file", str(files.settings)),
        *shipped,
        *("--py-files", str(attempt.archive)),
        *("--name", "LakeCompactionOperator shop.orders"),
        *("--deploy-mode", mode),
        *unattended,
        "--load-spark-defaults",
        str(APPLICATION),
        *("--spec", spec),
        *("--report", attempt.report_path),
    ]


def test_every_property_of_kubernetes_that_we_name_is_sparks_own_and_documented() -> None:
    assert set(named()) == DOCUMENTED
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar"))
    with zipfile.ZipFile(jar) as classes:
        constants = classes.read("org/apache/spark/deploy/k8s/Config$.class")
    unknown = [name for name in DOCUMENTED if utf8_constant(name) not in constants]
    assert unknown == []


def named() -> Iterator[str]:
    """Yield the properties in the official hook, in this package and in its documentation."""
    folders = ("airflow_lake_provider", "dags", "docker", "docs/how-to", "docs/reference")
    texts = [file for folder in folders for file in (REPOSITORY / folder).rglob("*") if file.suffix != ".pyc"]
    for file in (*texts, Path(spark_submit.__file__)):
        if file.is_file():
            text = file.read_bytes().decode(errors="ignore")
            yield from (found.rstrip("{") for found in re.findall(r"spark\.kubernetes\.[A-Za-z.]+", text))


def utf8_constant(text: str) -> bytes:
    """Return a text as the constant pool of a class has it."""
    return struct.pack(">BH", 1, len(text)) + text.encode()
