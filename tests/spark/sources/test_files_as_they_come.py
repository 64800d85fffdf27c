"""Files as other systems write them: encodings, XML, folders of partitions; each is read right or refused by name."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable

TYPES = "id BIGINT, name STRING"
HEADER = {"header": True}
ROW_TAG = {"rowTag": "row"}
NEEDS_XML = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="Spark 3.5 reads no XML")


@pytest.fixture(autouse=True)
def _settings_of_a_session(spark: SparkSession) -> Iterator[None]:
    """Take back what a read sets: the session of a job ends with it."""
    yield
    spark.conf.unset("spark.sql.legacy.javaCharsets")


def batch(spark: SparkSession, path: Path, table: str | None = None, **source: Any) -> RawBatch:
    given = Files(str(path), **source)
    listed = list_input_files(spark, given.path)
    with refusing_unreadable(spark, listed, given.format, given.options):
        found = read_files(spark, given, listed, parse_ddl(table) if table else None)
        if found.may_be_unparsable:
            found.refuse_unparsable(found.rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
    return found


def rows(spark: SparkSession, path: Path, table: str | None = None, **source: Any) -> list[dict[str, Any]]:
    found = batch(spark, path, table, **source)
    read = found.rows.orderBy("_lake_arrival").drop("_lake_arrival", UNPARSABLE).collect()
    return [row.asDict(recursive=True) for row in read]


# Encoding, and letters that others do not have at their places.
ENCODED = {
    "windows-1252": "€ Œ é",
    "Shift_JIS": "表示 ソ",
    "GB18030": "中文 㐀",
    "UTF-16": "é 😀",
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_csv_in_an_encoding_that_is_said_has_the_letters_that_python_reads(
    spark: SparkSession, tmp_path: Path, encoding: str
) -> None:
    text = f'id,name\r\n1,"{ENCODED[encoding]}"\r\n2,"say ""hi"""\r\n'
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    expected = [{**row, "id": int(row["id"])} for row in csv.DictReader(io.StringIO(text))]
    assert rows(spark, tmp_path / "a.csv", schema=TYPES, options={**HEADER, "encoding": encoding}) == expected


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_in_a_wide_encoding_is_read_to_its_end_where_the_end_of_a_line_is_said(
    spark: SparkSession, tmp_path: Path, encoding: str, end: str
) -> None:
    (tmp_path / "a.csv").write_bytes(end.join(("id,name", "1,é", "2,Ċ", "")).encode(encoding))
    read = rows(spark, tmp_path / "a.csv", schema=TYPES, options={**HEADER, "encoding": encoding, "lineSep": end})
    assert read == [{"id": 1, "name": "é"}, {"id": 2, "name": "Ċ"}]


def test_json_lines_in_an_encoding_of_one_byte_a_letter_are_read(spark: SparkSession, tmp_path: Path) -> None:
    records = [{"id": 1, "name": "€"}, {"id": 2, "name": "é\n"}]
    for name, encoding in {"a": "windows-1252", "b": "UTF-16LE"}.items():
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\r\n" for record in records)
        (tmp_path / f"{name}.json").write_bytes(lines.encode(encoding))
        assert rows(spark, tmp_path / f"{name}.json", schema=TYPES, options={"encoding": encoding}) == records
    for options in ({"encoding": "UTF-16"}, {"encoding": "UTF-32", "lineSep": "\n"}):
        with pytest.raises(InvalidSpecError, match="write them as UTF-8"):
            rows(spark, tmp_path / "b.json", schema=TYPES, options=options)


def test_a_json_document_of_several_lines_is_read_where_it_is_said_and_refused_with_the_option_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [{"id": 1, "name": "é"}, {"id": 2, "name": "z\n"}]
    pretty = json.dumps(records, indent=1, ensure_ascii=False)
    for name, content in {
        "a": pretty.encode(),
        "b": b"\xef\xbb\xbf" + pretty.encode(),
        "c": pretty.encode("utf-16"),
    }.items():
        (tmp_path / f"{name}.json").write_bytes(content)
    assert rows(spark, tmp_path / "*.json", schema=TYPES, options={"multiLine": True}) == records * 3
    for schema in (TYPES, None):
        with pytest.raises(BadInputError, match="'multiLine': True"):
            rows(spark, tmp_path / "a.json", schema=schema)
    (tmp_path / "lines.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(BadInputError, match=r"more than one value: .*without options=\{'multiLine': True\}"):
        rows(spark, tmp_path / "lines.json", schema=TYPES, options={"multiLine": True})


@pytest.mark.parametrize("name", ["encoding", "charset", "Encoding"])
@pytest.mark.parametrize("schema", [TYPES, None])
def test_bytes_that_are_no_utf_8_are_refused_in_a_document_whose_encoding_is_named(
    spark: SparkSession, tmp_path: Path, name: str, schema: str | None
) -> None:
    options = {"multiLine": True, name: "UTF-8"}
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + '[{"id": 1,\n "name": "é"}]'.encode())
    assert rows(spark, tmp_path / "a.json", schema=schema, options=options) == [{"id": 1, "name": "é"}]
    (tmp_path / "b.json").write_bytes(b'[{"id": 1,\n "name": "caf\xe9"}]')
    with pytest.raises(BadInputError):
        rows(spark, tmp_path / "b.json", schema=schema, options=options)


# Content, options, and what the refusal says, of CSV without a header.
OTHER_BYTES: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "no letter of windows-1252": (b"1,\x81\n", {"encoding": "windows-1252"}, "no letters in windows-1252"),
    "windows-1252 called ISO-8859-1": (b"1,\x80\n", {"encoding": "ISO-8859-1"}, "'encoding': 'windows-1252'"),
    "no ASCII": (b"1,\xe9\n", {"encoding": "US-ASCII"}, "no letters in us-ascii"),
    "no Shift_JIS": (b"1,\xff\xff\n", {"encoding": "Shift_JIS"}, "no letters in shift_jis"),
    "half a pair of UTF-16": (b"1\0,\0\0\xd8\n\0", {"encoding": "UTF-16LE"}, "no letters in utf-16le"),
    "UTF-16 that nobody says": ("1,é\n".encode("utf-16"), {}, "is UTF-16 text: give options={'encoding': 'UTF-16'}"),
    "gzip": (gzip.compress(b"1,x\n"), {}, r"rename it to end with \.gz"),
    "gzip in an encoding of any byte": (gzip.compress(b"1,x\n"), {"encoding": "ISO-8859-1"}, "rename it"),
    "a row with a value too few": (b"1,x\n2\n", {}, "as many values as there are columns"),
}


@pytest.mark.parametrize("case", OTHER_BYTES)
def test_bytes_that_are_no_text_of_the_encoding_are_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    content, options, said = OTHER_BYTES[case]
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(BadInputError, match=rf"/a\.csv.*{said}"):
        rows(spark, tmp_path / "a.csv", schema="id STRING, name STRING", options=options)


def test_an_archive_is_refused_by_its_name_or_by_its_bytes(spark: SparkSession, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "book.csv", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet.csv", "1,x\n" * 50)
    for name in ("a.csv.tar.gz", "a.csv.tar.bz2", "a.tgz", "a.csv.lz", "a.xlsx", "a.csv.zip"):
        (tmp_path / name).write_bytes((tmp_path / "book.csv").read_bytes())
    names = ["book.csv", "a.csv.tar.gz", "a.csv.tar.bz2", "a.tgz", "a.csv.lz", "a.xlsx", "a.csv.zip"]
    for name in names:
        with pytest.raises(BadInputError, match=rf"{re.escape(name)} is .*unpack it"):
            rows(spark, tmp_path / name, schema="id STRING, name STRING", format="csv")


def test_a_header_with_another_separator_is_refused_with_the_option(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;name\n1;x\n")
    with pytest.raises(BadInputError, match=r"options=\{'sep': ';'\}"):
        rows(spark, tmp_path / "a.csv", schema=TYPES, options=HEADER)


@pytest.mark.parametrize("name", ["header", "HEADER"])
def test_the_option_header_is_read_in_any_case(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,name\n1,007\n")
    expected = [{"id": 1, "name": "007"}]
    assert rows(spark, path, table=TYPES, options={name: True}) == expected
    with pytest.raises(BadInputError, match=r"has the columns \['id'\], but the header"):
        rows(spark, path, schema="id BIGINT", options={name: True})
    given = Files(str(path), schema=TYPES, options={name: True})
    lines = read_files(spark, given, list_input_files(spark, given.path), None, keeps_lines=True).rows
    assert [row.asDict() for row in lines.select("id", "name").collect()] == expected


SOUND_XML: dict[str, str | bytes] = {
    "plain": '<?xml version="1.0"?>\n<rows>\n <row>\n  <id>1</id>\n  <name> x </name>\n </row>\n</rows>\n'
    "<!-- end -->\n",
    "texts": "<rows><row><id>2</id><name><![CDATA[a <b>]]></name></row>"
    "<row><id>3</id><name>&amp; &#233;</name></row></rows>",
    "absent": "<rows><!-- <row><id>9</id></row> --><row><id>4</id><name/></row><row><id>5</id></row></rows>",
    "typed": '<!DOCTYPE rows [<!ELEMENT rows ANY>]><rows><row a="7"><id>6</id><total>1.50</total>'
    "<day>2026-01-02</day></row></rows >",
    "nested": '<rows><row><id>7</id><tag>a</tag><tag>b</tag><at><x>5</x><y u="m">1</y></at></row></rows>',
    "list": "<rows><row><id>8</id><line><n>1</n></line><line><n>2</n><note/></line></row></rows>",
    "latin": b'<?xml version="1.0" encoding="ISO-8859-1"?><rows><row><id>9</id><name>\xe9</name></row></rows>',
    "wide": '<?xml version="1.0" encoding="UTF-16"?><rows><row><id>10</id><name>é</name></row></rows>'.encode("utf-16"),
    "zipped": gzip.compress(b"<row><id>11</id><name>one</name></row>"),
    "nothing": "<rows/>",
    "empty": "<?xml version='1.0'?><rows>\n</rows>",
}
XML_TYPES = (
    "id BIGINT, name STRING, _a INT, total DECIMAL(12,2), day DATE, tag ARRAY<STRING>, "
    "at STRUCT<x: INT, y: STRUCT<_VALUE: DOUBLE, _u: STRING>>, line ARRAY<STRUCT<n: INT, note: STRING>>"
)


def written(folder: Path, documents: dict[str, str | bytes]) -> Path:
    for name, text in documents.items():
        suffix = ".xml.gz" if name == "zipped" else ".xml"
        (folder / f"{name}{suffix}").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def expected_of(document: str | bytes) -> list[dict[str, Any]]:
    """The rows as ElementTree and Python's types have them."""
    data = document.encode() if isinstance(document, str) else document
    root = ET.fromstring(gzip.decompress(data) if data.startswith(b"\x1f") else data)
    return [_record(row) for row in root.iter("row")]


def _record(row: ET.Element) -> dict[str, Any]:
    def text(element: ET.Element | None) -> str | None:
        return None if element is None else element.text or ""

    at, total, day = row.find("at"), row.find("total"), row.find("day")
    y = None if at is None else at.find("y")
    lines = [{"n": int(str(line.findtext("n"))), "note": text(line.find("note"))} for line in row.findall("line")]
    return {
        "id": int(str(row.findtext("id"))),
        "name": text(row.find("name")),
        "_a": int(row.attrib["a"]) if "a" in row.attrib else None,
        "total": None if total is None else Decimal(str(total.text)),
        "day": None if day is None else date.fromisoformat(str(day.text)),
        "tag": [text(tag) for tag in row.findall("tag")] or None,
        "at": None
        if at is None or y is None
        else {"x": int(str(at.findtext("x"))), "y": {"_VALUE": float(str(y.text)), "_u": y.attrib["u"]}},
        "line": lines or None,
    }


@NEEDS_XML
def test_xml_has_the_values_that_python_reads_of_it(spark: SparkSession, tmp_path: Path) -> None:
    found = rows(spark, written(tmp_path, SOUND_XML), format="xml", schema=XML_TYPES, options=ROW_TAG)
    expected = [row for document in SOUND_XML.values() for row in expected_of(document)]
    assert sorted(found, key=lambda row: int(row["id"])) == sorted(expected, key=lambda row: int(row["id"]))
    # Types by the table where it has the column, and by the values else.
    plain = rows(spark, tmp_path / "typed.xml", table="id STRING, total DECIMAL(12,2)", options=ROW_TAG)
    assert plain == [{"_a": 7, "day": date(2026, 1, 2), "id": "6", "total": Decimal("1.50")}]


FAULTY_XML: dict[str, tuple[str, str]] = {
    "cut-between-rows": ("<rows><row><id>1</id></row>", "a document without its end"),
    "cut-in-a-row": ("<rows><row><id>1</id></row><row><id>2</i", "<rows>"),
    "broken": ("<rows><row><id>1</id></row><row><id>2</name></row></rows>", "<rows>"),
    "other-tag": ("<rows><order><id>1</id></order></rows>", "a document without a record"),
    "prefixed": ('<n:rows xmlns:n="u"><n:row><n:id>1</n:id></n:row></n:rows>', "a document without a record"),
    "repeated": ("<rows><row><id>1</id><name>a</name><name>b</name></row></rows>", "an element that is there more"),
    "repeated-inside": ("<rows><row><id>1</id><at><x>1</x><x>2</x></at></row></rows>", "an element that is there more"),
    "repeated-in-a-list": (
        "<rows><row><id>1</id><line><n>1</n><n>2</n></line></row></rows>",
        "an element that is there",
    ),
    "nil": ('<rows xmlns:xsi="x"><row><id>1</id><name xsi:nil="true"/></row></rows>', "an element that is nil"),
    "rounded": ("<rows><row><id>1</id><total>1.505</total></row></rows>", "a value that its type does not hold"),
    "no-number": ("<rows><row><id>x</id></row></rows>", "a value that its type does not hold"),
    "entity": (
        '<!DOCTYPE rows [<!ENTITY e SYSTEM "file:///etc/hostname">]><rows><row><name>&e;</name></row></rows>',
        "<!D",
    ),
    "text": ("hello", "hello"),
}


@NEEDS_XML
def test_xml_of_which_spark_would_read_a_part_is_refused_document_by_document(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = written(tmp_path, {name: text for name, (text, _) in FAULTY_XML.items()})
    given = Files(str(folder), format="xml", schema=XML_TYPES, options=ROW_TAG)
    listed = list_input_files(spark, given.path)
    found = read_files(spark, given, listed, None)
    flagged = found.rows.filter(f"{UNPARSABLE} IS NOT NULL").select("_lake_arrival.file", UNPARSABLE).collect()
    faults = [(Path(listed[row["file"]].path).stem, row[UNPARSABLE]) for row in flagged]
    for name, (_, said) in FAULTY_XML.items():
        assert any(fault.startswith(said) for document, fault in faults if document == name), (name, faults)
    assert {name for name, _ in faults} == FAULTY_XML.keys()
    with pytest.raises(
        BadInputError, match=r"records cannot be read.*a document without a record: .*'rowTag'.*is nil: "
    ):
        found.refuse_unparsable(len(faults))


@NEEDS_XML
def test_xml_of_bytes_that_are_no_text_or_of_no_record_at_all_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path, {"bytes": b"<rows><row><id>1</id><name>\xe9</name></row></rows>", "other": "<rows><r/></rows>"})
    with pytest.raises(BadInputError, match=r"bytes\.xml has bytes that are no letters .*'encoding'"):
        rows(spark, tmp_path / "bytes.xml", schema=TYPES, options=ROW_TAG)
    with pytest.raises(BadInputError, match=r"other\.xml' has an element <row> .*'rowTag'"):
        rows(spark, tmp_path / "other.xml", options=ROW_TAG)
    with pytest.raises(BadInputError, match="are MAP; declare a STRUCT"):
        rows(spark, tmp_path / "other.xml", schema="id BIGINT, tags MAP<STRING, STRING>", options=ROW_TAG)
    prefixed = '<n:rows xmlns:n="u"><n:row><n:id>1</n:id><n:name>x</n:name></n:row></n:rows>'
    written(tmp_path, {"prefixed": prefixed})
    options = {**ROW_TAG, "ignoreNamespace": True}
    assert rows(spark, tmp_path / "prefixed.xml", schema=TYPES, options=options) == [{"id": 1, "name": "x"}]


FOLDERS = [
    "day=2026-01-01/region=eu",
    "day=2026-01-02/region=a%2Fb%20c",
    "day=2026-01-03/region=__HIVE_DEFAULT_PARTITION__",
]
REGIONS = ["eu", "a/b c", None]


def write_rows(path: Path, number: int, **more: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, list[Any]] = {"id": [number], "code": ["007"], **more}
    record = {name: values[0] for name, values in columns.items()}
    match path.suffix:
        case ".csv":
            path.write_text(f"{','.join(columns)}\n{','.join(map(str, record.values()))}\n")
        case ".json":
            path.write_text(json.dumps(record) + "\n")
        case ".xml":
            fields = "".join(f"<{name}>{value}</{name}>" for name, value in record.items())
            path.write_text(f"<rows><row>{fields}</row></rows>")
        case ".parquet":
            pq.write_table(pa.table(columns), path)
        case _:
            orc.write_table(pa.table(columns), str(path))


# Format, options, and the number of files: of more than 8, paths are joined.
KINDS = {"csv": (HEADER, 9), "json": ({}, 3), "xml": (ROW_TAG, 3), "parquet": ({}, 9), "orc": ({}, 3)}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=NEEDS_XML if kind == "xml" else ()) for kind in KINDS])
def test_folders_that_are_named_are_columns_with_the_types_of_schema_and_table(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    options, count = KINDS[kind]
    names = [*FOLDERS, *(f"day=2026-02-{number:02}/REGION=0{number}" for number in range(3, count))]
    for number, name in enumerate(names):
        write_rows(tmp_path / name / f"a.{kind}", number)
    days = [date.fromisoformat(re.findall(r"\d{4}-\d\d-\d\d", name)[0]) for name in names]
    regions = [*REGIONS, *(f"0{number}" for number in range(3, count))]
    expected = [
        {"id": number, "code": "007", "day": day, "region": region}
        for number, (day, region) in enumerate(zip(days, regions, strict=True))
    ]
    given: dict[str, Any] = {"format": kind, "options": options, "partition_columns": ["day", "region"]}
    schema = "id BIGINT, code STRING, day DATE"
    assert rows(spark, tmp_path / "*" / "*" / f"*.{kind}", schema=schema, **given) == expected
    # By the table's column, and below a folder that the path names.
    one = {"format": kind, "options": options, "partition_columns": ["day"]}
    table = "id BIGINT, code STRING, day DATE"
    assert rows(spark, tmp_path / names[0], table, **one) == [{"id": 0, "code": "007", "day": days[0]}]


def test_csv_without_a_line_below_folders_has_the_other_columns_of_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "day=2026-01-01"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"")
    given: dict[str, Any] = {"options": HEADER, "partition_columns": ["DAY"], "format": "csv"}
    empty = batch(spark, folder, "id BIGINT, tags ARRAY<STRING>, Day DATE", **given).rows
    types = {name: kind for name, kind in empty.dtypes if not name.startswith("_lake_")}
    assert (types, empty.count()) == ({"id": "bigint", "DAY": "date"}, 0)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=NEEDS_XML if kind == "xml" else ()) for kind in KINDS])
def test_a_column_of_the_files_that_is_a_folder_too_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    # Spark compares names of JSON's fields with case, where a schema declares them.
    write_rows(tmp_path / "day=1" / f"a.{kind}", 1, **{"day" if kind == "json" else "Day": ["2"]})
    for schema in ("id BIGINT, code STRING, DAY STRING", None):
        with pytest.raises(BadInputError, match=r"(themselves, which are names of folders|but the header)"):
            rows(spark, tmp_path, format=kind, options=KINDS[kind][0], partition_columns=["day"], schema=schema)


def test_a_folder_whose_value_does_not_fit_its_type_is_refused_with_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, value in enumerate(("1", "x")):
        write_rows(tmp_path / f"v={value}" / "a.parquet", number)
    for kind, unfit in {"INT": "x", "DATE": "1", "DECIMAL(2,1)": "x", "BOOLEAN": "1", "TIMESTAMP": "1"}.items():
        with pytest.raises(BadInputError, match=rf"/v={unfit}/a\.parquet: the folder v={unfit} is no .*STRING"):
            batch(
                spark, tmp_path, format="parquet", schema=f"id BIGINT, code STRING, v {kind}", partition_columns=["v"]
            )
