"""An inferred column of numbers holds each integer of the file, or its record is refused with the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from tests.spark.sources.test_unreadable_files import apply

# Values of one column that nobody has declared, and whether each is held.
NUMBERS: dict[str, list[tuple[str, bool]]] = {
    "39 digits": [("9" * 39, False)],
    "39 digits below zero": [("-" + "9" * 39, False)],
    "38 digits": [("9" * 38, True)],
    "20 digits": [("12345678901234567890", True)],
    "a float writer's zeros": [("1" + "0" * 300, True)],
    "a float writer's digits and zeros": [
        ("12345678901234567" + "0" * 30, False),
        ("1234567890123456" + "0" * 30, True),
    ],
    "17 digits beside a fraction": [("12345678901234567", False), ("1.5", True)],
    "16 digits beside a fraction": [("9007199254740992", True), ("9007199254740993", False), ("0.5", True)],
    "15 digits beside a fraction": [("999999999999999", True), ("-999999999999999", True), ("0.5", True)],
    "fractions": [("0.1", True), ("0." + "1" * 40, True), ("1e30", True)],
}


def refused(spark: SparkSession, path: Path, **words: Any) -> list[bool]:
    source = Files(str(path), **words)
    rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
    found = [row[0] is not None for row in rows.orderBy("id").select("_lake_unparsable").collect()]
    rows.unpersist()
    return found


@pytest.mark.parametrize("case", NUMBERS)
def test_an_integer_that_an_inferred_double_rounds_is_refused(spark: SparkSession, tmp_path: Path, case: str) -> None:
    values = NUMBERS[case]
    expected = [not is_held for _, is_held in values]
    lines = "".join(f'{{"id": {n}, "v": {text}}}\n' for n, (text, _) in enumerate(values))
    (tmp_path / "a.json").write_text(lines)
    assert refused(spark, tmp_path / "a.json") == expected
    (tmp_path / "b.json").write_text(lines.replace('"v": ', '"v": [{"x": ').replace("}\n", "}]}\n"))
    assert refused(spark, tmp_path / "b.json") == expected
    (tmp_path / "a.csv").write_text("id,v\n" + "".join(f"{n},{text}\n" for n, (text, _) in enumerate(values)))
    assert refused(spark, tmp_path / "a.csv", options={"header": True}) == expected


def test_a_declared_double_holds_the_nearest_number(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'{{"id": 0, "v": {"9" * 39}}}\n')
    assert refused(spark, tmp_path / "a.json", schema="id INT, v DOUBLE") == [False]


def test_a_refused_number_is_told_with_its_file_and_column(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'{{"id": 0, "v": {"9" * 39}}}\n')
    with pytest.raises(BadInputError, match=r"/a\.json, the first is its record 1.*, in v: .*declare a wider type"):
        apply(spark, tmp_path / "a.json")


def test_a_seat_is_no_inferred_number(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,seat\n0,12D\n1,7F\n2,15.5\n")
    assert refused(spark, tmp_path / "a.csv", options={"header": True}) == [True, True, False]
    (tmp_path / "v=12D").mkdir()
    (tmp_path / "v=12D" / "a.csv").write_text("0\n")
    with pytest.raises(BadInputError, match="the folder v=12D is no double"):
        refused(spark, tmp_path / "v=12D", format="csv", schema="id INT, v DOUBLE", partition_columns=["v"])


def test_headers_in_two_texts_make_no_column_of_numbers_one_of_texts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\n1,1.5\n")
    (tmp_path / "b.csv").write_text('"id","v"\n2,2.5\n')
    words: dict[str, Any] = {"options": {"header": True}}
    with pytest.raises(BadInputError, match=r"""one header in two texts, '"id","v"' and 'id,v'.*a schema"""):
        refused(spark, tmp_path, format="csv", **words)
    assert refused(spark, tmp_path, format="csv", schema="id INT, v DOUBLE", **words) == [False, False]
    assert refused(spark, tmp_path, format="csv", options={"header": True, "multiLine": True}) == [False, False]
    (tmp_path / "b.csv").write_text("id,v\n2,x\n")
    assert refused(spark, tmp_path, format="csv", **words) == [False, False]
    for place, header in enumerate(("id,2024", '"id","2024"')):
        (tmp_path / f"{'ab'[place]}.csv").write_text(f"{header}\n{place},1.5\n")
    with pytest.raises(BadInputError, match="one header in two texts"):
        refused(spark, tmp_path, format="csv", **words)
    for place, header in enumerate(("id,größe", '"id","größe"')):
        (tmp_path / f"{'ab'[place]}.csv").write_text(f"{header}\n{place},1.5\n", encoding="iso-8859-1")
    with pytest.raises(BadInputError, match=r"one header in two texts, .*größe"):
        refused(spark, tmp_path, format="csv", options={"header": True, "encoding": "ISO-8859-1"})
