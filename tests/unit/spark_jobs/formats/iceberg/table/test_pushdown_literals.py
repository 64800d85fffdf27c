from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DataType, DateType, DecimalType, LongType, StringType, TimestampType

from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    greatest_literal,
    least_literal,
    sure_literal,
)

# Dense around the surrogates, where UTF-16 leaves the order of characters.
characters = st.one_of(st.sampled_from("Ab'\\$\ud7ff\ue000\uff21\U0001f600\U0010ffff"), st.characters(codec="utf-8"))
texts = st.text(characters, max_size=5)


def value_of(literal: str) -> str:
    as_bytes = re.fullmatch(r"CAST\(X'([0-9a-f]*)' AS STRING\)", literal)
    if as_bytes:
        return bytes.fromhex(as_bytes[1]).decode()
    assert not set(literal[1:-1]) & set("'\\$")
    return literal[1:-1]


@given(texts, texts)
def test_the_literals_of_a_text_enclose_it_and_are_on_one_side_of_any_other_in_both_orders(
    text: str, other: str
) -> None:
    ends = least_literal(text, StringType()), greatest_literal(text, StringType())
    low, high = (None if literal is None else value_of(literal) for literal in ends)
    assert (low or "") <= text
    assert high is None or text <= high
    for sure in (low, high):
        if sure is not None:
            assert (sure < other) == (sure.encode("utf-16-be") < other.encode("utf-16-be"))
            assert (sure > other) == (sure.encode("utf-16-be") > other.encode("utf-16-be"))
    assert (sure_literal(text, StringType()) is not None) == all(character < "\ud800" for character in text)


@pytest.mark.parametrize(
    ("text", "kind", "literal"),
    [
        ("-135140", DateType(), "date_from_unix_date(-135140)"),
        ("-135141", DateType(), None),
        ("-11676096000000000", TimestampType(), "timestamp_micros(-11676096000000000L)"),
        ("-11676096000000001", TimestampType(), None),
        ("-7", LongType(), "-7L"),
        ("0.50", DecimalType(3, 2), "0.50BD"),
        ("a", StringType("UTF8_LCASE"), None),
    ],
)
def test_a_day_of_the_julian_calendar_has_no_literal(text: str, kind: DataType, literal: str | None) -> None:
    assert sure_literal(text, kind) == least_literal(text, kind) == greatest_literal(text, kind) == literal
