"""Lines of which Spark's readers take a part for the whole: all their records are applied, or the file is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.faulty_lines import fault_of_csv_file
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from tests.spark.sources.test_unreadable_files import EVENTS, apply, event, flow

A, B = '{"id": 1, "v": "a"}', '{"id": 2, "v": "b"}'
# Lines, all but the last sound, of which a reader that stops behind the first value loses or changes something.
WRONG_LINES = {
    "two objects without a sign between": f"{A}{B}",
    "two objects and a blank": f"{A} {B}",
    "two objects and a comma": f"{A},{B}",
    "two objects and a tabulator": f"{A}\t{B}",
    "three objects": f"{A}{A}{B}",
    "an object and a scalar": f"{A} 5",
    "an object and a text": f'{A} "}}"',
    "garbage": f"{A} x",
    "a comma at the end": f"{A},",
    "a field outside of the object": '{"id": 1}, "v": "a"}',
    "a brace too many": f"{A}}}",
    "a bracket too many": f"{A}]",
    "a NUL at the end": f"{A}\0",
    "an array and an object": f"[{A}] {B}",
    "two arrays": f"[{A}][{B}]",
    "two arrays behind a tabulator": f"\t[{A}][{B}]",
    "a nested object and another": '{"id": 1, "s": {"v": "}"}}{"id": 2}',
    "a brace in a text": '{"id": 1, "v": "}{"}{"id": 2}',
    "single quotes": "{'id': 1, 'v': 'a'}{'id': 2}",
    "a high surrogate alone": '{"id": 1, "v": "\\ud800"}',
    "a low surrogate alone": '{"id": 1, "v": "x\\uDC00y"}',
    "surrogates in the wrong order": '{"id": 1, "v": "\\ude00\\ud83d"}',
    "a surrogate behind backslashes": '{"id": 1, "v": "\\\\\\\\\\ud83d"}',
    "a surrogate in a name": '{"id": 1, "\\ud83d": 1}',
    "half a record": '{"id": 1, "v":',
    "a bare value": "5",
}
SOUND_LINES = {
    "blank lines": (f"\n  \n{A}\n\n", [1]),
    "an array of objects": (f"[{A}, {B}]", [1, 2]),
    "an array of objects behind a tabulator": (f"\t[{A}, {B}]", [1, 2]),
    "blanks around": (f"  {A}  \r\n{B}", [1, 2]),
    "a mark of the byte order": (f"\ufeff{A}", [1]),
    "carriage returns alone": (f"{A}\r{B}\r", [1, 2]),
    "braces in texts": ('{"id": 1, "v": "}{\\"}{"}', [1]),
    "nested": ('{"id": 1, "v": "a", "s": [{"x": {}}, {}]}', [1]),
    "single quotes": ("{'id': 1, 'v': '}'}", [1]),
    "a surrogate pair": ('{"id": 1, "v": "}\\ud83d\\ude00\\uD83D\\uDE00"}', [1]),
    "backslashes before a u": ('{"id": 1, "v": "}\\\\ud800"}', [1]),
    "infinity": ('{"id": 1, "v": "a", "x": {"y": NaN}}', [1]),
}


def rows_of(spark: SparkSession, path: Path, **words: Any) -> list[tuple[Any, str | None]]:
    source = Files(str(path), **{"format": "json", "schema": "id INT, v STRING", **words})
    rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
    found = [(row["id"], row["_lake_unparsable"]) for row in rows.collect()]
    rows.unpersist()
    return found


def test_a_line_of_json_that_would_be_read_in_part_is_refused_once(spark: SparkSession, tmp_path: Path) -> None:
    for number, line in enumerate(WRONG_LINES.values()):
        (tmp_path / f"{number:02}.json").write_text(f"{A}\n{line}\n{B}\n")
    source = Files(str(tmp_path), "json", schema="id INT, v STRING")
    batch = read_files(spark, source, list_input_files(spark, source.path), None)
    told = batch.rows.filter("_lake_unparsable IS NOT NULL").groupBy("_lake_arrival.file").count().collect()
    found: dict[int, int] = dict(map(tuple, told))
    # A name that is no text is refused by Spark's parser too.
    found[list(WRONG_LINES).index("a surrogate in a name")] = 1
    assert found == dict.fromkeys(range(len(WRONG_LINES)), 1)
    batch.rows.unpersist()


def test_a_sound_line_of_json_is_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    for number, (text, _) in enumerate(SOUND_LINES.values()):
        (tmp_path / f"{number:02}.json").write_text(text + "\n", newline="")
    source = Files(str(tmp_path), "json", schema="id INT, v STRING")
    batch = read_files(spark, source, list_input_files(spark, source.path), None)
    found: dict[int, list[int]] = {}
    for row in batch.rows.orderBy("_lake_arrival.file", "id").collect():
        assert row["_lake_unparsable"] is None, row
        found.setdefault(row["_lake_arrival"]["file"], []).append(row["id"])
    assert found == dict(enumerate(ids for _, ids in SOUND_LINES.values()))
    batch.rows.unpersist()


def test_options_of_json_say_what_is_sound(spark: SparkSession, tmp_path: Path) -> None:
    ways: list[tuple[bytes, dict[str, Any], list[int] | None]] = [
        (b'{"id": 1, "v": "}"} // {\n', {"allowComments": True}, [1]),
        (b'{id: 01, "v": "}"}\n', {"allowUnquotedFieldNames": True, "allowNumericLeadingZeros": True}, [1]),
        (b'{"id": 1,\n "v": "}"}\n', {"multiLine": True}, [1]),
        (f"[{A},\n{B}]\n".encode(), {"multiLine": True}, [1, 2]),
        (f"{A}\n{B}\n".encode(), {"multiLine": True}, None),
        (f"{A} {B}\n".encode("utf-16"), {"multiLine": True, "encoding": "UTF-16"}, None),
        ('{"id": 1, "v": "}é"}\n'.encode("latin-1"), {"encoding": "ISO-8859-1", "lineSep": "\n"}, [1]),
        (f"{A}{B}|".encode(), {"lineSep": "|"}, None),
        (f"{A}|{B}|".encode(), {"lineSep": "|"}, [1, 2]),
    ]
    for number, (body, options, ids) in enumerate(ways):
        path = tmp_path / f"{number}.json"
        path.write_bytes(body)
        found = rows_of(spark, path, options=options)
        faults = [fault for _, fault in found if fault is not None]
        assert (len(faults) == 1) is (ids is None), (body, found)
        assert ids is None or sorted(id_ for id_, _ in found) == ids, (body, found)


def test_a_line_with_two_records_names_the_file_and_the_record_and_nothing_is_applied(
    spark: SparkSession, tmp_path: Path
) -> None:
    named = r"1 records cannot be read .*1 in .*/{}, the first is its record 2.*more than one value"
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(f"{A}\n{A}{B}\n{B}\n".encode()))
    with pytest.raises(BadInputError, match=named.format(r"rows\.json\.gz")):
        apply(spark, tmp_path / "rows.json.gz", schema="id BIGINT, v STRING")
    with pytest.raises(BadInputError, match=named.format(r"rows\.json\.gz")):
        apply(spark, tmp_path / "rows.json.gz", query="SELECT * FROM source")


EVENT_LINES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "nothing between": lambda a, b: a + b,
    "a blank between": lambda a, b: a + b" " + b,
    "a comma between": lambda a, b: a + b"," + b,
    "a comma behind": lambda a, b: a + b",",
    "garbage behind": lambda a, b: a + b" x",
    "a NUL behind": lambda a, b: a + b"\0",
    "an array": lambda a, b: b"[" + a + b"," + b + b"]",
    "half a surrogate pair": lambda a, b: a.replace(b'"x"', b'"\\ud800"'),
}


def test_two_change_events_on_a_line_are_refused_with_their_file(spark: SparkSession, tmp_path: Path) -> None:
    one, two = event(id=1, name="x").rstrip(), event(id=2, name="y").rstrip()
    for number, join in enumerate(EVENT_LINES.values()):
        path = tmp_path / f"{number}.json"
        path.write_bytes(one + b"\n" + join(one, two) + b"\n")
        with pytest.raises(BadInputError, match=rf"no Debezium change events, .*: 1 in .*{number}\.json"):
            apply(spark, path, **EVENTS)


def test_lines_of_blanks_between_change_events_are_no_events(spark: SparkSession, tmp_path: Path) -> None:
    lines = [event(id=1, name="x"), b" \t \n", b"\t\n", b"\t" + event(id=2, name="y")]
    (tmp_path / "events.json").write_bytes(b"".join(lines))
    apply(spark, tmp_path / "events.json", "blank_events", **EVENTS)
    assert sorted(row["id"] for row in flow(spark, tmp_path, "blank_events").records()) == [1, 2]


def collected(rows: DataFrame) -> list[tuple[str, str | None]]:
    try:
        return [(row["v"], row["_lake_unparsable"]) for row in rows.collect()]
    except Py4JJavaError as error:
        # The reader refuses all of the file.
        if "TextParsingException" not in str(error):
            raise
        return [("", "Unescaped quote character")]


# Text of a file, and the rows that Python's csv module reads; None where a quoted value goes on in the next line.
CSV_LINES: dict[str, tuple[str, list[str] | None]] = {
    "doubled quotes": ('"say ""hi""",1\n', ['say "hi"']),
    "a comma in quotes": ('"a"", b",1\n', ['a", b']),
    "a value of two lines": ('"a\nb",1\n', None),
    "a quote without its end": ('"a,1\nb,2\n', None),
    "a quote without its end, alone in the last field": ('a,"1\n', None),
    "backslashes before quotes": ('"a\\"b",1\n', None),
    "one escaped quote": ('"\\"",1\n', None),
    "two escaped quotes": ('"\\"\\"",1\n', None),
    "text behind a quote": ('"a"x,1\n', None),
    "a backslash at the end": ('"C:\\",1\n', ["C:\\"]),
    "a quote in a bare value": ('5" pipe,1\n', ['5" pipe']),
    "two quotes in a bare value": ('a"b"c,1\n', ['a"b"c']),
    "an open quote behind one of a bare value": ('5" pipe,"1\n2,3"\n', None),
    "an open quote behind a bare value that ends with one": ('TV 55","1 ""\n2,3"\n', None),
    "two bare values with a quote each": ('5" pipe,6" pipe\n', ['5" pipe']),
    "a bare value with a quote before a quoted one": ('5","6"" x"\n', ['5"']),
    "JSON": ('"{""a"": 1}",1\n', ['{"a": 1}']),
    "empty quotes": ('"",1\n', [""]),
    "blanks": ('" a ",1\n', [" a "]),
    "carriage returns": ("a,1\r\nb,2\r\n", ["a", "b"]),
    "a sign of comments": ("#a,1\n", ["#a"]),
    "a NUL at the start": ("\0a,1\n", None),
    "NUL for an empty value": ("\0,1\n", ["\0"]),
    "NUL before an empty value": ("\0\0,1\n", None),
    "NUL before a later record": ("a,1\n" + "\0" * 50 + "b,2\n", None),
    "a NUL inside of a value": ("a\0,1\n", ["a\0"]),
    "a line of blanks": ("a,1\n \t \nb,2\n", ["a", "b"]),
    "the end of a file of DOS": ("a,1\n\x1a", ["a"]),
    "a line of NUL": ("a,1\n\0\0\0\nb,2\n", None),
    "NUL at the end": ("a,1\n" + "\0" * 50, None),
    "NUL and nothing else": ("\0" * 50, None),
    "a mark inside": ("a,1\n\ufeffb,2\n", None),
    "two marks at the start": ("\ufeff\ufeffa,1\n", None),
    "a mark at the start": ("\ufeffa,1\n", ["a"]),
    "a mark in a value": ("a\ufeff,1\n", ["a\ufeff"]),
    "other control characters": ("a,1\n\x01 \x02\nb,2\n", None),
}


def test_a_line_that_spark_would_leave_out_is_refused_with_any_options(spark: SparkSession, tmp_path: Path) -> None:
    for name, body, options in (
        ("tabs", "1\tx\n\t\n", {"sep": "\t"}),
        ("hive", "1\x01x\n\x01\n", {"sep": "\x01"}),
        ("header", "id,v\n1,x\n\0\0\n", {"header": True}),
        ("escape", "1,x\n\0\0\n", {"escape": "\\"}),
    ):
        (tmp_path / f"{name}.csv").write_text(body)
        with pytest.raises(BadInputError, match=rf"{name}\.csv.*a line of control characters alone"):
            apply(spark, tmp_path / f"{name}.csv", format="csv", options=options, schema="id INT, v STRING")


def test_a_record_behind_nul_is_refused_unless_nul_parts_values(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "crash.csv").write_text("1,x\n" + "\0" * 50 + "2,y\n")
    with pytest.raises(BadInputError, match=r"crash\.csv.*NUL characters before a record: .* write the file again"):
        apply(spark, tmp_path / "crash.csv", format="csv", schema="id INT, v STRING")
    (tmp_path / "hive.csv").write_text("1\0x\n\0y\n")
    assert rows_of(spark, tmp_path / "hive.csv", format="csv", options={"sep": "\0"}) == [(1, None), (None, None)]
    # The bcp of SQL Server writes NUL for an empty text.
    (tmp_path / "bcp.csv").write_text("\0\tx\n2\ty\n")
    bcp = {"sep": "\\t", "nullValue": "\0"}
    assert rows_of(spark, tmp_path / "bcp.csv", format="csv", options=bcp) == [(None, None), (2, None)]


def test_a_quoted_value_of_csv_is_what_rfc_4180_says_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name, (text, values) in CSV_LINES.items():
        path = tmp_path / f"{list(CSV_LINES).index(name)}.csv"
        path.write_text(text, newline="")
        source = Files(str(path), "csv", schema="v STRING, n STRING")
        batch = read_files(spark, source, list_input_files(spark, source.path), None)
        found = collected(batch.rows)
        batch.rows.unpersist()
        is_refused = any(fault is not None for _, fault in found)
        assert is_refused is (values is None), (name, found)
        assert values is None or [value for value, _ in found] == values, (name, found)


def test_a_fault_of_a_quote_is_refused_with_the_file_and_what_to_say(spark: SparkSession, tmp_path: Path) -> None:
    for name, body, said in (
        ("lines", 'id,v\n1,"a\nb"\n', "multiLine"),
        ("escaped", 'id,v\n1,"a\\"b"\n', "escape"),
    ):
        (tmp_path / f"{name}.csv").write_text(body)
        with pytest.raises(BadInputError, match=rf"{name}\.csv.*{said}"):
            apply(spark, tmp_path / f"{name}.csv", format="csv", options={"header": True}, schema="id INT, v STRING")
    given = {"format": "csv", "schema": "id BIGINT, v STRING"}
    (tmp_path / "sound.csv").write_text('id,v\n1,"a\nb ""c"""\n')
    applied = apply(spark, tmp_path / "sound.csv", "quoted", options={"header": True, "multiLine": True}, **given)
    assert applied.batch_rows == 1


def ends_within_quotes(text: str, separator: str = ",", escape: str = '"') -> bool:
    """Read a file of CSV sign by sign."""
    state, at = "start", 0
    while at < len(text):
        sign, at = text[at], at + 1
        if state == "inside" and sign == escape != '"':
            at += 1
        elif state == "inside":
            state = "closed" if sign == '"' else "inside"
        elif sign == '"' and (state == "start" or (state == "closed" and escape == '"')):
            state = "inside"
        else:
            state = "start" if sign in (separator, "\n", "\r") else "bare"
    return state == "inside"


@pytest.mark.parametrize(("separator", "escape"), [(",", '"'), ("|", '"'), (",", "\\")])
def test_a_file_of_csv_that_ends_within_quotes_is_told_from_any_other(
    spark: SparkSession, separator: str, escape: str
) -> None:
    texts = [
        "".join(signs)
        for length in range(6)
        for signs in product(f'"{separator}\n{"" if escape == chr(34) else escape}a', repeat=length)
        # A doubled quote ends Spark's parser where another sign escapes one.
        if escape == '"' or '""' not in "".join(signs)
    ]
    fault = fault_of_csv_file({"sep": separator, "escape": escape})
    judged = spark.createDataFrame([(text,) for text in texts], "value STRING").selectExpr("value", f"{fault} AS fault")
    found = {row["value"] for row in judged.filter("fault IS NOT NULL").collect()}
    assert found == {text for text in texts if ends_within_quotes(text, separator, escape)}
    assert len(found) > 100


OPEN_FILES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "cut off in a line": (b'1,a\n2,"b', {}),
    "cut off behind lines": (b'1,a\n2,"b\n3,c\n', {}),
    "in the first column": (b'"1,a\n2,b\n', {}),
    "behind a quote that stands alone": (b'1,5" pipe\n2,"y\n3,z\n', {}),
    "behind a doubled quote": (b'1,"a""\n2,b\n', {}),
    "with a header": (b'id,v\n1,"a\n2,b\n', {"header": True}),
    "with backslashes": (b'1,"a\\"\n2,b\n', {"escape": "\\"}),
    "packed": (gzip.compress(b'1,a\n2,"b\n3,c\n'), {}),
    "in another encoding": ('1,a\n2,"\u00fc\n3,c\n'.encode("cp1252"), {"encoding": "windows-1252"}),
    "with a mark": (b'\xef\xbb\xbf"1,a\n2,b\n', {}),
}


@pytest.mark.parametrize("name", OPEN_FILES)
def test_csv_whose_last_quote_is_open_takes_no_line_for_a_value(spark: SparkSession, tmp_path: Path, name: str) -> None:
    content, options = OPEN_FILES[name]
    path = tmp_path / f"a.csv{'.gz' if name == 'packed' else ''}"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"a\.csv.*goes on to the end of its file: the file was cut off"):
        apply(spark, path, format="csv", options={"multiLine": True, **options}, schema="id STRING, v STRING")


@pytest.mark.parametrize(("options", "letters"), [({}, False), ({"multiLine": True}, False), ({}, True)])
def test_a_header_inside_of_a_file_is_no_record(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], letters: bool
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Id,v\n1,a\nid,V\n2,v\nid,id\n\ufeffId,v\n")
    source = Files(str(path), options={"header": True, **options}, schema="id STRING, v STRING")
    rows = read_files(spark, source, list_input_files(spark, source.path), None, keeps_lines=letters).rows
    found = {(row[0], row[1]) for row in rows.filter("_lake_unparsable IS NULL").collect()}
    faults = [row[0] for row in rows.select("_lake_unparsable").filter("_lake_unparsable IS NOT NULL").collect()]
    rows.unpersist()
    assert found >= {("1", "a"), ("2", "v"), ("id", "id")}
    assert not found & {("id", "V"), ("Id", "v")}
    assert faults.count("the header once more") >= 1


@pytest.mark.parametrize("header", ["id,ID", "id,", ",id"])
def test_a_header_with_a_name_twice_or_without_one_is_refused_with_dead_letters_too(
    spark: SparkSession, tmp_path: Path, header: str
) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
    source = Files(str(tmp_path / "a.csv"), options={"header": True})
    with pytest.raises(BadInputError, match=r"columns twice|a column without a name"):
        read_files(spark, source, list_input_files(spark, source.path), None, keeps_lines=True)


def test_lines_of_csv_that_end_otherwise_than_the_first_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    read = {"format": "csv", "options": {"header": True, "multiLine": True}}
    (tmp_path / "mixed.csv").write_text("id,v\n1,a\n2,a\r\n", newline="")
    with pytest.raises(
        BadInputError, match=r"a line that ends otherwise than the first.* mixed\.csv|mixed\.csv.*LF or CRLF"
    ):
        apply(spark, tmp_path / "mixed.csv", **read)
    (tmp_path / "header.csv").write_text('"id\n",v\r\n1,a\r\n', newline="")
    with pytest.raises(BadInputError, match="header that ends with CRLF"):
        apply(spark, tmp_path / "header.csv", **read)
    (tmp_path / "dos.csv").write_text('id,v\r\n1,a\r\n2,"b\r\nc"\r\n', newline="")
    apply(spark, tmp_path / "dos.csv", "dos", **read)
    assert flow(spark, tmp_path, "dos").rows() == {1: ("a",), 2: ("b\nc",)}


def test_a_json_document_that_memory_does_not_hold_is_refused_by_its_size(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text('[{"id": 1,\n"v": "a"}]')
    read = {"format": "json", "options": {"multiLine": True}}
    apply(spark, tmp_path / "small.json", "document", **read)
    # A driver of these tests has 2 GB.
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(BadInputError, match=r"large\.json is a JSON document of 95 MiB.*a line for each record"):
        apply(spark, tmp_path / "large.json", **read)
