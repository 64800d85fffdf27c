"""Names that others may change without notice, and that we use or overwrite: they are there, in the shape we rely on.

The upper bounds in setup.cfg end where nobody has run this. Whoever raises one runs it with the new version.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.definitions.mappedoperator import OperatorPartial
from airflow.triggers.base import BaseEventTrigger
from packaging.requirements import Requirement
from packaging.version import Version
from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, ManifestFile
from pyiceberg.table import ManifestGroupPlanner, _open_manifest
from pyiceberg.types import StructType
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Observation, SparkSession
from pyspark.sql.classic.dataframe import DataFrame

import airflow_lake_provider

PACKAGE = Path(airflow_lake_provider.__file__).parent
SETTINGS = Path(__file__).parents[2] / "setup.cfg"

# The worker's side: names of Airflow, of its Spark provider, and of PyIceberg.
WORKER = {
    *("_set_xcomargs_dependencies", "_set_xcomargs_dependency", "_expand", "_expand_called"),
    *("_get_hook", "_hook", "_conn_id", "_deploy_mode", "_spark_binary"),
    *("_build_spark_common_args", "_connection", "_env"),
    *("_conf", "_env_vars", "_is_yarn_cluster_mode", "_proxy_user", "_render", "_yarn_application_id"),
    *("_status_poll_interval", "_yarn_rm_auth", "_yarn_track_via_rm_api"),
    *("_session", "_auth_manager", "_config_headers", "_create_session", "_init_sigv4", "_load_file_io"),
    *("_fetch_config", "_resolve_storage_credentials", "_response_to_table", "_response_to_staged_table"),
    *("_client_secret_header", "_content", "_convert_orm_to_iceberg", "_iceberg_type_filter", "_init_catalog"),
    *("_HiveClient", "_client", "_create_hive_client", "_init_thrift_transport"),
    *("_kerberos_auth", "_kerberos_service_name", "_uri"),
}
# The driver's side: names of PySpark.
DRIVER = {
    "_jvm",
    "_jsparkSession",
    "_jdf",
    "_jsc",
    "_jo",
    "_gateway",
    "_origin",
    "_gateway_client",
    "_create_new_connection",
    "_ensure_initialized",
}
# The driver's side on Spark 3.5; ``scripts/matrix spark-3.5`` runs what uses them.
OLDER_DRIVER = {"_jc", "_parse_datatype_string", "_collect_as_arrow"}
# A named tuple's own, which its documentation describes.
DOCUMENTED = {"_replace"}

METHODS: list[tuple[Callable[..., Any], list[str]]] = [
    (BaseOperator._set_xcomargs_dependencies, ["self"]),
    (BaseOperator._set_xcomargs_dependency, ["self", "field", "newvalue"]),
    (BaseOperator.render_template, ["self", "content", "context", "jinja_env", "seen_oids"]),
    (BaseOperator._render, ["self", "template", "context", "dag"]),
    (OperatorPartial._expand, ["self", "expand_input", "strict"]),
    (XComArg.iter_xcom_references, ["arg"]),
    (SparkSubmitOperator._get_hook, ["self"]),
    (SparkSubmitOperator.execute, ["self", "context"]),
    (SparkSubmitOperator.on_kill, ["self"]),
    (SparkSubmitOperator.get_job_status, ["self", "external_id", "context"]),
    (SparkSubmitOperator.poll_until_complete, ["self", "external_id", "context"]),
    (SparkSubmitHook._build_spark_common_args, ["self"]),
    (SparkSubmitHook.submit, ["self", "application", "kwargs"]),
    (SparkSubmitHook.query_yarn_application_status, ["self", "application_id"]),
]


def test_methods_that_we_overwrite_or_call_take_what_they_took() -> None:
    found = {method.__qualname__: list(inspect.signature(method).parameters) for method, _ in METHODS}
    assert found == {method.__qualname__: parameters for method, parameters in METHODS}


def test_a_partial_has_the_fields_that_we_make_another_from() -> None:
    submit = SparkSubmitOperator.partial(task_id="submit", application="job.py")
    names = ("operator_class", "kwargs", "params", "_expand_called")
    assert [name for name in names if not hasattr(submit, name)] == []
    assert {*names[:3]} <= inspect.signature(OperatorPartial).parameters.keys()
    # Airflow warns of one that was never expanded.
    submit._expand_called = True


def test_the_official_operator_keeps_its_arguments_where_we_change_them() -> None:
    submit = SparkSubmitOperator(
        task_id="submit",
        application="job.py",
        conn_id="other",
        deploy_mode="cluster",
        spark_binary="spark3-submit",
        status_poll_interval=20,
        yarn_track_via_rm_api=True,
    )
    kept = (submit._conn_id, submit._deploy_mode, submit._spark_binary, submit._hook)
    assert kept == ("other", "cluster", "spark3-submit", None)
    assert (submit._status_poll_interval, submit._yarn_track_via_rm_api, submit._yarn_rm_auth) == (20, True, None)
    public = ("application_args", "conf", "env_vars", "files", "jars", "packages", "properties_file", "py_files")
    assert [name for name in public if not hasattr(submit, name)] == []
    assert isinstance(SparkSubmitOperator.external_id_key, str)
    assert isinstance(SparkSubmitOperator._K8S_DRIVER_STATUS_KEY, str)


def test_the_official_hook_is_one_that_ours_can_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    hook = SparkSubmitOperator(task_id="submit", application="job.py", env_vars={"A": "1"})._get_hook()
    assert {"_conf", "_connection", "_env", "_env_vars", "_proxy_user", "_yarn_application_id"} <= vars(hook).keys()
    assert hook._is_yarn_cluster_mode is False
    assert hook._connection["master"] == "local[2]"
    assert hook._build_spark_common_args()[:2] == ["--master", "local[2]"]
    assert hook._env == {"A": "1"}


def test_airflow_gives_a_watcher_a_store_for_its_watermark() -> None:
    # Without one a watcher does not know after a restart which snapshot its last event was about.
    assert "asset_state_store" in BaseEventTrigger.__init__.__code__.co_names


def test_a_connection_is_asked_for_in_the_parts_that_airflow_is_made_of() -> None:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder, ErrorResponse, GetConnection
    from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    assert "SUPERVISOR_COMMS" in task_runner.__annotations__
    assert GetConnection(conn_id="lake").conn_id == "lake"
    assert "error" in ErrorResponse.model_fields
    assert inspect.signature(ensure_secrets_backend_loaded).parameters == {}
    assert hasattr(ExecutionAPISecretsBackend, "get_connection")
    # How the server's errors come, and which of them says that there is no connection.
    assert list(inspect.signature(CommsDecoder.send).parameters) == ["self", "msg"]
    missing = ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
    assert AirflowRuntimeError(missing).error.error is ErrorType.CONNECTION_NOT_FOUND


def test_pyiceberg_plans_manifest_entries_and_reads_manifests_of_version_3() -> None:
    planner = inspect.signature(ManifestGroupPlanner).parameters
    assert {"table_metadata", "io", "row_filter", "case_sensitive", "options"} <= planner.keys()
    assert "manifests" in inspect.signature(ManifestGroupPlanner.plan_manifest_entries).parameters
    # It reads the entries as the manifests that it is given do.
    assert "fetch_manifest_entry" in _open_manifest.__code__.co_names
    assert {"io", "discard_deleted"} <= inspect.signature(ManifestFile.fetch_manifest_entry).parameters.keys()
    assert "input_file" in inspect.signature(AvroFile).parameters
    assert {"decoder", "header", "reader"} <= set(AvroFile.__enter__.__code__.co_names)
    data_file = MANIFEST_ENTRY_SCHEMAS[3].find_type("data_file")
    assert isinstance(data_file, StructType)
    assert 143 in {field.field_id for field in data_file.fields}


def test_a_rest_catalog_has_a_session_that_asks_with_its_credentials() -> None:
    assert "_create_session" in RestCatalog.__init__.__code__.co_names
    assert "_session" in RestCatalog.__init__.__code__.co_names


def test_pyspark_keeps_its_java_objects_where_we_look_for_them() -> None:
    set_by = {
        SparkSession.__init__: "_jsparkSession",
        DataFrame.__init__: "_jdf",
        SparkContext._do_init: "_jsc",
        CapturedException.__init__: "_origin",
        Observation._on: "_jo",
    }
    assert [name for function, name in set_by.items() if name not in function.__code__.co_names] == []
    assert hasattr(SparkContext, "_gateway")
    assert hasattr(SparkContext, "_ensure_initialized")
    assert "_jvm" in SparkSession.__init__.__code__.co_names


@pytest.mark.parametrize(
    ("is_driver", "listed"), [(False, WORKER), (True, DRIVER | OLDER_DRIVER)], ids=["worker", "driver"]
)
def test_every_private_name_of_others_is_on_a_list_here(is_driver: bool, listed: set[str]) -> None:
    sources = [path for path in PACKAGE.rglob("*.py") if ("spark_jobs" in path.relative_to(PACKAGE).parts) == is_driver]
    trees = [ast.parse(source.read_text()) for source in sources]
    ours = {name for tree in trees for name in names_made(tree)}
    used = {name for tree in trees for name in names_used(tree)}
    assert used - ours - listed - DOCUMENTED == set()
    assert listed - used == set()


# Beside PySpark's private attributes: how a method of Java is found, and an array of it made.
REFLECTION = {"forName", "MethodHandleProxies", "MethodHandles", "MethodType", "new_array"}
JVM = PACKAGE / "spark_jobs" / "jvm"


def reaches_into_the_jvm(tree: ast.AST) -> Iterator[str]:
    """Yield what a file uses that only ``spark_jobs/jvm/`` may: by name, by ``getattr``, or by import."""
    of_the_jvm = DRIVER | {"_jc", "_jconf", "_jreader", "_jwrite", "_java_obj", "_jseq", "_jmap"} | REFLECTION
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in of_the_jvm and not is_own(node):
            yield node.attr
        elif isinstance(node, ast.Constant) and node.value in of_the_jvm:
            yield str(node.value)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (
                name for name in names if name.split(".")[0] == "py4j" or name.startswith("pyspark.java_gateway")
            )


def is_own(node: ast.Attribute) -> bool:
    """Tell whether an attribute is one of the object itself."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_only_one_folder_reaches_into_the_jvm() -> None:
    reached = {}
    for source in sorted(PACKAGE.rglob("*.py")):
        names = set(reaches_into_the_jvm(ast.parse(source.read_text())))
        if names and JVM not in source.parents:
            reached[str(source.relative_to(PACKAGE))] = sorted(names)
    assert reached == {}


@pytest.mark.parametrize(
    "code",
    [
        "spark._jvm.java.lang.System",
        "getattr(spark, '_jsparkSession')",
        "from py4j.protocol import Py4JJavaError",
        "import py4j.java_gateway",
        "from pyspark.java_gateway import launch_gateway",
        "invoke.MethodHandles.publicLookup()",
        "gateway.new_array(kind, 1)",
        "rows._jdf.queryExecution()",
    ],
)
def test_each_way_around_is_seen(code: str) -> None:
    assert len(list(reaches_into_the_jvm(ast.parse(code)))) == 1


def names_used(tree: ast.AST) -> Iterator[str]:
    """Yield private names that are read from an object, or imported, and those of methods that may overwrite others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from private(node.attr)
        elif isinstance(node, ast.ImportFrom):
            yield from (name for alias in node.names for name in private(alias.name))
        elif isinstance(node, ast.FunctionDef):
            yield from private(node.name)


def names_made(tree: ast.AST) -> Iterator[str]:
    """Yield private names that a file of ours gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from private(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from private(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from private(node.id)


def private(name: str) -> Iterator[str]:
    """Yield a name that begins with one underscore."""
    if name.startswith("_") and not name.startswith("__"):
        yield name


def test_a_private_name_is_seen() -> None:
    tree = ast.parse("from a import _b\nclass C:\n    def _d(self):\n        self._e = x._f\n")
    assert set(names_used(tree)) == {"_b", "_d", "_e", "_f"}
    assert set(names_made(tree)) == {"_d", "_e"}


@pytest.mark.parametrize(
    ("name", "newest", "unseen"),
    [
        ("apache-airflow", "3.3.99", "3.4.0"),
        ("apache-airflow-providers-apache-spark", "6.3.99", "6.4.0"),
        ("apache-airflow-providers-apache-iceberg", "2.99.0", "3.0.0"),
        ("pyiceberg", "0.12.99", "0.13.0"),
        ("pyspark", "4.1.3", "4.1.4"),
        ("pyspark-client", "4.1.3", "4.1.4"),
    ],
)
def test_setup_cfg_ends_below_what_nobody_has_seen(name: str, newest: str, unseen: str) -> None:
    parser = ConfigParser()
    parser.read(SETTINGS)
    lines = [line for line in parser["options"]["install_requires"].splitlines() if line.strip()]
    (pin,) = (each for each in map(Requirement, lines) if each.name == name)
    assert Version(newest) in pin.specifier
    assert Version(unseen) not in pin.specifier
