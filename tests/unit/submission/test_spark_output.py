"""Lines of ``spark-submit`` as they come: Spark's own, and those that a person has to read."""

from __future__ import annotations

import pytest

from airflow_lake_provider.submission.spark_log import SparkOutput

OWN = {
    "log4j": """
26/11/26 00:05:12 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2 instead
26/11/26 00:05:15 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
26/11/26 00:05:21 INFO SparkContext: Running Spark version 4.1.3
26/11/26 00:05:34 WARN SQLConf: The SQL config 'spark.sql.optimizer.metadataOnly' has been deprecated in Spark v3.0
{"ts":"2026-11-26T00:05:12.812Z","level":"WARN","msg":"Retrying","context":{},"logger":"Tasks"}
""",
    "how log4j starts": """
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting Spark log level to "WARN".
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
SLF4J: Failed to load class "org.slf4j.impl.StaticLoggerBinder".
SLF4J(W): No SLF4J providers were found.
log4j:WARN No appenders could be found for logger (org.apache.hadoop.util.Shell).
""",
    "a task that Spark tries again": """
26/11/26 00:05:51 ERROR Executor: Exception in task 0.0 in stage 3.0 (TID 5)
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 12 more
Caused by: org.apache.iceberg.exceptions.RuntimeIOException: Failed to close current writer
\tat org.apache.iceberg.io.BaseTaskWriter.close(BaseTaskWriter.java:93)
\tSuppressed: java.lang.IllegalStateException
""",
    "a task of Python that Spark tries again": """
26/11/26 00:05:51 WARN TaskSetManager: Lost task 0.0 in stage 3.0 (TID 5) (10.0.0.1 executor 2): org.apache.Python
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/jobs/rules.py", line 7, in price
    raise ValueError("no price")
ValueError: no price

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
""",
    "the JVM's notices": """
WARNING: Using incubator modules: jdk.incubator.vector
WARNING: A terminally deprecated method in sun.misc.Unsafe has been called
WARNING: sun.misc.Unsafe::arrayBaseOffset has been called by org.apache.spark.unsafe.Platform (file:/x.jar)
WARNING: sun.misc.Unsafe::arrayBaseOffset will be removed in a future release
WARNING: A restricted method in java.lang.System has been called
WARNING: Use --enable-native-access=ALL-UNNAMED to avoid a warning for callers in this module
WARNING: Restricted methods will be blocked in a future release unless native access is enabled
WARNING: Please consider reporting this to the maintainers of class org.apache.spark.unsafe.Platform
Picked up JAVA_TOOL_OPTIONS: -XX:+UseSerialGC
NOTE: Picked up JDK_JAVA_OPTIONS: -Xss4m
OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes because bootstrap classpath
[0.015s][warning][cds] shared class paths mismatch
""",
    "Ivy": """
:: loading settings :: url = jar:file:/opt/spark/jars/ivy-2.5.3.jar!/org/apache/ivy/core/settings/ivysettings.xml
Ivy Default Cache set to: /home/airflow/.ivy2.5.2/cache
The jars for the packages stored in: /home/airflow/.ivy2.5.2/jars
org.apache.iceberg#iceberg-spark-runtime-4.1_2.13 added as a dependency
https://repo.example/maven added as a remote repository with the name: repo-1
:: resolving dependencies :: org.apache.spark#spark-submit-parent-88d1;1.0
\tconfs: [default]
\tfound org.xerial#sqlite-jdbc;3.50.3.0 in central
downloading https://repo1.maven.org/maven2/org/xerial/sqlite-jdbc/3.50.3.0/sqlite-jdbc-3.50.3.0.jar ...
\t[SUCCESSFUL ] org.xerial#sqlite-jdbc;3.50.3.0!sqlite-jdbc.jar (501ms)
:: resolution report :: resolve 1500ms :: artifacts dl 600ms
\t:: modules in use:
\t---------------------------------------------------------------------
\t|                  |            modules            ||   artifacts   |
:: retrieving :: org.apache.spark#spark-submit-parent-88d1
You probably access the destination server through a proxy server that is not well configured.
\t0 artifacts copied, 3 already retrieved (0kB/9ms)
:: problems summary ::
:::: WARNINGS
\t\tmodule not found: org.example#missing;1.0
""",
    "progress": "[Stage 3:=========>                                              (4 + 2) / 24]\n",
    "YARN": """
26/11/26 00:05:51 INFO Client: Application report for application_1764000000000_0001 (state: RUNNING)
\t client token: N/A
\t diagnostics: N/A
""",
}
JOB = {
    "ours": """
[lake] session ...
[lake] application local-1795651525965, Spark UI http://192.0.2.2:4040
""",
    "an author's prints and logging": """
rows 17
2026-11-26 00:05:11,123 WARNING rules: 3 prices are negative
2026-11-26 00:05:11,123 INFO rules: done
+---+-----+
|id |price|
+---+-----+
""",
    "a traceback": """
Traceback (most recent call last):
  File "/opt/jobs/rules.py", line 7, in price
    raise ValueError("no price")
ValueError: no price
py4j.protocol.Py4JJavaError: An error occurred while calling o433.save.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: java.io.IOException: No space left on device
\t... 12 more
""",
    "spark-submit that never starts": """
JAVA_HOME is not set
Error: Missing application resource.
Error: Unrecognized option: --frobnicate
Warning: Ignoring non-Spark config property: lake.frobnicate
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.example#missing;1.0: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:548)
Unrecognized VM option 'UseMagicGC'
Error: Could not create the Java Virtual Machine.
""",
    "a JVM that dies": """
java.lang.OutOfMemoryError: Java heap space
Terminating due to java.lang.OutOfMemoryError: Java heap space
OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0000, 4096, 0) failed; error='Not enough space' (errno=12)
# There is insufficient memory for the Java Runtime Environment to continue.
# An error report file with more information is saved as:
# /tmp/hs_err_pid4711.log
Killed
""",
}


def lines_of(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(kind, text.lstrip("\n")) for kind, text in texts.items()]


@pytest.mark.parametrize(("kind", "text"), lines_of(OWN))
def test_what_spark_says_of_itself_is_its_own(kind: str, text: str) -> None:
    output = SparkOutput()
    assert [line for line in text.splitlines() if not output.is_own(line)] == []


@pytest.mark.parametrize(("kind", "text"), lines_of(JOB))
def test_what_a_person_has_to_read_is_not_sparks_own(kind: str, text: str) -> None:
    output = SparkOutput()
    assert [line for line in text.splitlines() if output.is_own(line)] == []


@pytest.mark.parametrize(("kind", "text"), lines_of(JOB))
@pytest.mark.parametrize("before", OWN)
def test_lines_of_the_job_are_seen_after_any_line_of_sparks_own(kind: str, text: str, before: str) -> None:
    # A line of an exception alone belongs to what stands before it.
    text = text.removeprefix("java.lang.OutOfMemoryError: Java heap space\n")
    output = SparkOutput()
    for line in OWN[before].lstrip("\n").splitlines():
        output.is_own(line)
    assert [line for line in text.splitlines() if output.is_own(line)] == []


@pytest.mark.parametrize("before", JOB)
@pytest.mark.parametrize(("kind", "text"), lines_of(OWN))
def test_sparks_own_lines_are_seen_after_any_line_of_the_job(kind: str, text: str, before: str) -> None:
    output = SparkOutput()
    for line in JOB[before].lstrip("\n").splitlines():
        output.is_own(line)
    assert [line for line in text.splitlines() if not output.is_own(line)] == []


def test_each_wait_is_told_and_a_state_only_when_it_changes() -> None:
    client = "26/11/26 00:05:51 INFO Client: Application report for application_1_0001 (state: {})"
    lines = [
        "26/11/26 00:05:51 WARN Tasks: Retrying task after failure: Cannot commit: table was updated",
        "26/11/26 00:05:52 WARN Tasks: Retrying task after failure: Cannot commit: table was updated",
        *(client.format(state) for state in ("ACCEPTED", "ACCEPTED", "RUNNING", "RUNNING")),
        "26/11/26 00:05:52 WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI",
        "26/11/26 00:37:45 INFO HttpRequestRetryExec: ex-0000000001 http://c responded with 503; re-executed in 16 s",
        "26/11/26 00:05:15 WARN NativeCodeLoader: Unable to load native-hadoop library",
    ]
    output = SparkOutput()
    assert [said for line in lines if (said := output.wait(line)) is not None] == [
        "Retrying task after failure: Cannot commit: table was updated",
        "Retrying task after failure: Cannot commit: table was updated",
        "Application report for application_1_0001 (state: ACCEPTED)",
        "Application report for application_1_0001 (state: RUNNING)",
        "Initial job has not accepted any resources; check your cluster UI",
        "http://c responded with 503; re-executed in 16 s",
    ]
