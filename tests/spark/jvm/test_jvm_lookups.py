"""Names of the JVM are looked up once, and what is not there is told as PySpark tells it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

SENT = "Command to send: "
# Tells the JVM that Python has let an object go.
RELEASE = "m\n"


def sent_by(call: Callable[[], object], caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.DEBUG, logger="py4j.clientserver"):
        caplog.clear()
        call()
    commands = [text.removeprefix(SENT) for text in caplog.messages if text.startswith(SENT)]
    return [command for command in commands if not command.startswith(RELEASE)]


def test_a_function_is_looked_up_once(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    sf.col("id")
    called = "c\nz:org.apache.spark.sql.functions\ncol\nsid\ne\n"
    assert sent_by(lambda: sf.col("id"), caplog) == [called]


def test_a_class_is_looked_up_once(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.org.apache.iceberg.FileContent.DATA.id() == 0
    assert sent_by(lambda: jvm.org.apache.iceberg.FileContent, caplog) == []


def test_a_class_that_is_not_there_is_asked_for_again(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    jvm = spark._jvm
    assert jvm is not None
    assert isinstance(jvm.org.apache.iceberg.Absent, JavaPackage)
    assert len(sent_by(lambda: jvm.org.apache.iceberg.Absent, caplog)) == 1
    with pytest.raises(TypeError, match="'JavaPackage' object is not callable"):
        jvm.org.apache.absent("x")
