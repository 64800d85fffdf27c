"""Schemas as text: columns and types in every spelling of Spark's, and nothing that it would evaluate."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError

TAKEN = [
    "id BIGINT",
    "id: BIGINT, total decimal(12, 2) NOT NULL COMMENT 'of the \\'order\\', DEFAULT 3',\n note STRING",
    "`zip-code` STRING, `a``b` INT, größe INT, 1st INT, default INT, comment STRING",
    'a ARRAY<INT>, m MAP<STRING, ARRAY<DECIMAL(3,1)>>, s STRUCT<a: INT, b STRING NOT NULL COMMENT "x">, e STRUCT<>',
    "a TIMESTAMP_NTZ, b INTERVAL DAY TO SECOND, c INTERVAL YEAR, d CHAR(3), e STRING COLLATE UNICODE, f VARIANT",
]
REFUSED = [
    ("id BIGINT DEFAULT reflect('java.lang.System', 'exit', 0)", "'DEFAULT'"),
    ("id BIGINT DEFAULT (SELECT 1)", "'DEFAULT'"),
    ("s STRUCT<a INT DEFAULT 3>", "> is expected"),
    ("id BIGINT GENERATED ALWAYS AS (1)", "'GENERATED'"),
    ("id BIGINT GENERATED ALWAYS AS IDENTITY", "'GENERATED'"),
    ("id BIGINT CHECK (id > 0)", "'CHECK'"),
    ("id BIGINT PRIMARY KEY", "'PRIMARY'"),
    ("id BIGINT COMMENT reflect('a', 'b')", "COMMENT takes a text"),
    ("id BIGINT NOT NULL DEFAULT 1", "'DEFAULT'"),
    ("id BIGINT) AS SELECT 1", "'\\)'"),
    ("id BIGINT; DROP TABLE x", "'; DROP"),
    ("id BIGINT /* x */", "'/"),
    ("id DECIMAL(12, (SELECT 1))", "a number is expected"),
    ("BIGINT", "at its end a type"),
    ("STRUCT<id: BIGINT>", "a type is expected"),
    ("id BIGINT,", "at its end the name"),
    ("id FOO", "'FOO' a type"),
    ("zip-code STRING", "'-code STRING' is neither a name nor a text; put it in backticks"),
    ("${env:HOME} INT", "an environment variable"),
    ("`${env:HOME}` INT", "an environment variable"),
    ("a " + "ARRAY<" * 60 + "INT" + ">" * 60, "inside of each other"),
    ("id BIGINT COMMENT 'x", "neither a name"),
    (" ", "the name of a column"),
]


@pytest.mark.parametrize("text", TAKEN)
def test_columns_with_types_are_taken(text: str) -> None:
    assert Files(path="in/*.json", format="json", schema=text).schema == text


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_a_schema_that_spark_would_have_to_evaluate_is_refused_before_it_starts(text: str, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why):
        Files(path="in/*.json", format="json", schema=text)
