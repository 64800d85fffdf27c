"""The limits of Avro are set in a driver that has other ones, or an older Avro."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_lake_provider.spark_jobs.sources.kafka import framed_avro


def test_an_older_avro_that_keeps_no_limits_gets_them_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "org.apache.avro.limits.bytes.maxLength"
    properties = {given: "7"}
    system = SimpleNamespace(getProperty=properties.get, setProperty=properties.__setitem__)
    spark: Any = SimpleNamespace(
        sparkContext=object(), _jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    )
    asked: list[str] = []
    monkeypatch.setattr(framed_avro, "has_class", lambda _, name: asked.append(name))
    framed_avro.limit_lengths(spark)
    assert asked == ["org.apache.avro.SystemLimitException"]
    assert properties[given] == "7"
    assert len(properties) == 3
