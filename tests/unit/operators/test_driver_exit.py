"""The reason why a driver ended that could not say it itself."""

from __future__ import annotations

import subprocess

import pytest

from airflow_lake_provider.contracts.errors import JobFailedError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import JobFailure
from airflow_lake_provider.operators.driver_exit import DriverEnd

LOST = "there is no report"
CODES = {
    -9: "a process was killed with signal 9, probably for its memory: the driver ended with exit code -9",
    137: "a process was killed with signal 9, probably for its memory: the driver ended with exit code 137",
    52: "memory ran out: the driver ended with exit code 52",
    53: "Spark cannot use the folder of its own files: the driver ended with exit code 53",
    -6: "the driver's JVM aborted (signal 6)",
    -11: "the driver's JVM crashed (signal 11)",
    139: "the driver's JVM crashed (signal 11)",
    135: "the driver's JVM ended with signal 7",
    143: "the driver was told to end (signal 15)",
    -2: "the driver was interrupted (signal 2)",
}
LINES = {
    "java.lang.OutOfMemoryError: Java heap space": "memory ran out: java.lang.OutOfMemoryError",
    "Error: Could not reserve enough space for 9437184KB object heap": "memory ran out: ",
    "java.io.IOException: No space left on device": "no space is left on a disk: ",
    "java.io.IOException: Failed to create a temp directory (under /x) after 10 attempts!": "Spark cannot use the ",
    "\t diagnostics: Application application_1_1 failed 1 times due to AM Container exited with  exitCode: 137": (
        "a process was killed with signal 9"
    ),
    "Current usage: is running 5B beyond the 'PHYSICAL' memory limit.": "a process was killed with signal 9",
    "\t container status: Terminated, reason: OOMKilled": "a process was killed with signal 9",
    "Caused by: org.apache.hadoop.security.AccessControlException: Permission denied: user=x": "access was denied: ",
    "RuntimeException: [unresolved dependency: org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found]": (
        "Spark could not fetch its packages: "
    ),
    "Caused by: java.lang.ClassNotFoundException: org.apache.iceberg.spark.SparkCatalog": "a jar is missing: ",
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found": "Spark has no ",
}
# As spark-submit says it before any driver is there; no retry finds another Java.
WITHOUT_JAVA = [
    "JAVA_HOME is not set",
    "/opt/spark/bin/spark-class: line 71: /nowhere/bin/java: No such file or directory",
    (
        "\tjava.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by a more recent "
        "version of the Java Runtime (class file version 61.0)"
    ),
]


def said(code: int) -> str:
    return f"Cannot execute: spark-submit --name x --conf a=No_space_left. Error code is: {code}."


@pytest.mark.parametrize("code", CODES)
def test_an_exit_code_tells_why_a_driver_left_no_report(code: int) -> None:
    end = DriverEnd(error=said(code))
    found = end.explained(None, "table shop.orders in lake", LOST)
    assert isinstance(found, JobFailedError)
    assert str(found).startswith(f"table shop.orders in lake: {CODES[code]}")
    # Not the command line, which the log has.
    assert str(found).endswith(". The driver left no report")


@pytest.mark.parametrize("line", LINES)
def test_the_end_of_the_log_tells_why_where_the_exit_code_does_not(line: str) -> None:
    end = DriverEnd(error=said(1))
    for each in ("26/11/25 INFO Started", line, *["26/11/25 INFO Ended"] * 50):
        end.heed(each)
    found = end.explained(None, "table shop.orders in lake", LOST)
    # Not a type that no retry mends: the line may be a warning.
    assert type(found) is JobFailedError
    assert str(found).startswith(f"table shop.orders in lake: {LINES[line]}")


def test_a_value_that_failed_one_task_is_not_why_the_driver_ended() -> None:
    end = DriverEnd(error=said(1))
    end.heed("26/11/30 ERROR Executor: SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero")
    assert str(end.explained(None, "table t in lake", LOST)) == f"table t in lake: {LOST}"


@pytest.mark.parametrize("line", WITHOUT_JAVA)
def test_a_driver_that_no_java_started_is_not_tried_again(line: str) -> None:
    end = DriverEnd(error=said(1))
    end.heed(line)
    found = end.explained(None, "table shop.orders in lake", LOST)
    assert type(found) is UnsupportedError
    assert str(found).startswith("table shop.orders in lake: Java is missing or too old: ")
    for word in ("Java 17", "JAVA_HOME"):
        assert word in str(found)
    # One that was killed had a Java.
    end.error = said(137)
    assert type(end.explained(None, "table shop.orders in lake", LOST)) is JobFailedError


@pytest.mark.parametrize("binary", ["spark-submit", "spark3-submit", "/opt/spark/bin/spark-submit"])
def test_a_worker_without_spark_is_not_tried_again(binary: str) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        subprocess.run([binary], env={"PATH": "/nowhere"}, check=False)
    found = DriverEnd(error=str(missing.value)).explained(None, "table shop.orders in lake", LOST)
    assert type(found) is UnsupportedError
    assert str(found).startswith("table shop.orders in lake: there is no Spark to submit with: ")
    assert "SPARK_HOME" in str(found)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (127, "/usr/local/bin/spark-submit: line 27: /opt/spark/bin/spark-class: No such file or directory"),
        (1, "Failed to find Spark jars directory (/opt/spark/assembly/target/scala-2.13/jars)."),
    ],
)
def test_a_spark_home_without_spark_is_not_tried_again(code: int, line: str) -> None:
    end = DriverEnd(error=said(code))
    end.heed(line)
    found = end.explained(None, "table shop.orders in lake", LOST)
    assert type(found) is UnsupportedError
    assert f"there is no Spark to submit with: {line.rstrip('.')}" in str(found)


def test_a_code_of_kubernetes_counts() -> None:
    end = DriverEnd(error="Cannot execute: x. Error code is: 0. Kubernetes spark exit code is: 137")
    assert "signal 9" in str(end.explained(None, "t", LOST))


def test_python_that_outlives_its_jvm_gets_the_jvms_exit_code() -> None:
    left = JobFailure(error="JobFailedError", message="t: the driver's JVM is gone: Py4JNetworkError", traceback="...")
    found = DriverEnd(error=said(-9)).explained(left, "table t in lake", LOST)
    assert isinstance(found, JobFailure)
    assert found.message.startswith("table t in lake: a process was killed with signal 9")
    assert DriverEnd().explained(left, "table t in lake", LOST) == left


@pytest.mark.parametrize(
    "left",
    [
        CompactionReport(table="t", outcome=Outcome.DONE, reason="as asked"),
        JobFailure(error="BadInputError", message="the driver's JVM is gone: in a text", traceback=""),
        JobFailure(error="JobFailedError", message="t: no space is left on a disk", traceback=""),
    ],
)
def test_what_a_driver_says_itself_stands(left: CompactionReport | JobFailure) -> None:
    end = DriverEnd(error=said(137))
    assert end.explained(left, "t", LOST) is left


def test_nothing_known_is_said_as_it_was() -> None:
    found = DriverEnd(error=said(1)).explained(None, "table t in lake", LOST)
    assert str(found) == f"table t in lake: {LOST}"
