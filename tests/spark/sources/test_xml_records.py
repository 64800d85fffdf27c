"""Records of XML that Spark's reader would take in part: attributes beside elements, records inside of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.test_files_as_they_come import NEEDS_XML, ROW_TAG, rows

pytestmark = NEEDS_XML

# How attributes are called, documents, and the column of which each has two values.
TWICE: list[tuple[str, str, str]] = [
    ("", '<row id="1"><name>a</name><name>b</name></row>', "name"),
    ("", '<row id="1"><id>2</id></row>', "id"),
    ("", '<row id="1"><at x="1"><x>2</x></at></row>', "at"),
    ("", '<row id="1"><line n="1"/><line n="1"><n>2</n></line></row>', "line"),
    ("", '<row id="1" line="2"/>', "line"),
    ("na", "<row><id>1</id><name>a</name><name>b</name></row>", "name"),
    ("_", '<row a="1"><_a>2</_a></row>', "_a"),
    ("_", "<row><_a>1</_a><_a>2</_a></row>", "_a"),
    ("_", '<row><price VALUE="5">6</price></row>', "price"),
]
COLUMNS = (
    "id BIGINT, _a INT, name STRING, at STRUCT<u: STRING, x: INT>, line ARRAY<STRUCT<n: INT>>, "
    "price STRUCT<_VALUE: INT, _unit: STRING>"
)


def document(folder: Path, text: str) -> Path:
    path = folder / "a.xml"
    path.write_text(f"<rows>{text}</rows>", encoding="utf-8")
    return path


def test_attributes_have_the_names_of_elements_where_no_prefix_is_given(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        '<row id="1"><name>x</name><at u="m"><x>5</x></at><line n="1"/><line><n>2</n></line></row><row><_a>7</_a></row>'
    )
    options = {**ROW_TAG, "attributePrefix": ""}
    nothing = dict.fromkeys(("id", "_a", "name", "at", "line", "price"))
    lines = [{"n": 1}, {"n": 2}]
    assert rows(spark, document(tmp_path, text), schema=COLUMNS, options=options) == [
        {**nothing, "id": 1, "name": "x", "at": {"u": "m", "x": 5}, "line": lines},
        {**nothing, "_a": 7},
    ]


def test_an_attribute_may_be_called_as_the_column_of_texts(spark: SparkSession, tmp_path: Path) -> None:
    text = '<row VALUE="1"><price VALUE="5" unit="EUR"/></row><row><price unit="USD">6</price></row>'
    expected = [
        {"_VALUE": 1, "price": {"_VALUE": 5, "_unit": "EUR"}},
        {"_VALUE": None, "price": {"_VALUE": 6, "_unit": "USD"}},
    ]
    schema = "_VALUE BIGINT, price STRUCT<_VALUE: INT, _unit: STRING>"
    assert rows(spark, document(tmp_path, text), schema=schema, options=ROW_TAG) == expected
    # Of inferred columns, too.
    assert rows(spark, tmp_path / "a.xml", options=ROW_TAG) == expected


def test_a_prefix_of_attributes_is_compared_without_case(spark: SparkSession, tmp_path: Path) -> None:
    document(tmp_path, "<row><name>x</name></row>")
    (tmp_path / "b.xml").write_text('<rows><row id="2"/></rows>')
    options = {**ROW_TAG, "ATTRIBUTEPREFIX": "Attr_"}
    read = rows(spark, tmp_path, format="xml", schema="name STRING, attr_id BIGINT", options=options)
    assert read == [{"name": "x", "attr_id": None}, {"name": None, "attr_id": 2}]


@pytest.mark.parametrize(("prefix", "text", "column"), TWICE)
def test_a_second_value_of_a_column_is_refused_be_it_an_attribute_or_an_element(
    spark: SparkSession, tmp_path: Path, prefix: str, text: str, column: str
) -> None:
    options = {**ROW_TAG, "attributePrefix": prefix}
    with pytest.raises(BadInputError, match=f"1 records .*more than once, in {column}: .*attributePrefix"):
        rows(spark, document(tmp_path, text), schema=COLUMNS, options=options)


def test_an_attribute_for_an_array_is_refused_and_no_task_is_retried(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"1 records .*in _id: .*a plain type where it is an attribute"):
        rows(spark, document(tmp_path, '<row id="1"/>'), schema="_id ARRAY<BIGINT>", options=ROW_TAG)


@pytest.mark.parametrize("inner", ["<row><id>2</id></row>", '<parts a="/>"><row id="2"/></parts>'])
def test_a_record_inside_of_another_one_is_refused(spark: SparkSession, tmp_path: Path, inner: str) -> None:
    path = document(tmp_path, f"<row/><row><id>1</id>{inner}</row>")
    with pytest.raises(BadInputError, match=r"a record inside of another one: .*declare a column"):
        rows(spark, path, schema="id BIGINT", options=ROW_TAG)


def test_records_inside_of_a_column_of_their_name_are_its_values(spark: SparkSession, tmp_path: Path) -> None:
    path = document(tmp_path, "<row><id>1</id><row><id>2</id></row></row>")
    schema = "id BIGINT, row ARRAY<STRUCT<id: BIGINT>>"
    assert rows(spark, path, schema=schema, options=ROW_TAG) == [{"id": 1, "row": [{"id": 2}]}]


def test_what_looks_like_a_record_in_a_comment_a_text_or_an_attribute_is_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (
        "<!-- <row> --><row a='12'><id>12</id><name><![CDATA[<row>]]></name><!-- <row> --></row>"
        "<row a='13' b='/>'><id>13</id></row >"
    )
    found = rows(spark, document(tmp_path, text), schema="id BIGINT, _a INT, name STRING", options=ROW_TAG)
    assert found == [{"id": 12, "_a": 12, "name": "<row>"}, {"id": 13, "_a": 13, "name": None}]


def test_names_of_elements_have_letters_of_any_language(spark: SparkSession, tmp_path: Path) -> None:
    names = {"Aufträge": "Auftrag", "Bücher": "Übersicht", "заказы": "заказ", "表": "行"}
    for place, (root, tag) in enumerate(names.items()):
        path = tmp_path / f"{place}.xml"
        path.write_text(f"<{root}><{tag} ä='1'><id>{place}</id></{tag}></{root}>", encoding="utf-8")
        expected = [{"id": place, "_ä": 1}]
        assert rows(spark, path, schema="id BIGINT, `_ä` INT", options={"rowTag": tag}) == expected
        with pytest.raises(BadInputError, match="a document without a record"):
            rows(spark, path, schema="id BIGINT", options=ROW_TAG)
        path.write_text(f"<{root}/>", encoding="utf-8")
        assert rows(spark, path, schema="id BIGINT", options={"rowTag": tag}) == []
