"""Dead letters, compared with lists of what was written into the files."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, RepairedLetters
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import AppendReport, Outcome
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit, AppliedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format import IcebergFormatTable
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.repaired_letters import RepairedLettersSource
from tests.spark.append_flow import append, event, events_of
from tests.spark.cached_rdds import cached_rdds
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, NewFlow, kill

COLUMNS = "id BIGINT, name STRING, total DECIMAL(6,2), at TIMESTAMP, tags ARRAY<STRING>"
CSV_COLUMNS = "id BIGINT, name STRING, total DECIMAL(6,2), at TIMESTAMP"
UNREADABLE, LOST = "UNREADABLE_RECORD", "LOST_VALUE"
# A line, and the class and words of its letter; without these, a record that can be read, or none.
Line = tuple[bytes, str | None, str]
JSON_LINES: list[Line] = [
    (b'{"id": 1, "name": "a", "total": 1.50, "at": "2026-01-02T03:04:05Z", "tags": ["x", null]}', None, ""),
    (b'{"id": "two"}', LOST, "in id"),
    (b"", None, ""),
    (b"nonsense", UNREADABLE, "no JSON object"),
    (b'{"id": 3, "total": 1.234}', LOST, "in total"),
    (b'{"id": 4, "name": "b"}{"id": 5}', UNREADABLE, "more than one value"),
    (b'{"id": 6, "name": "\\ud800"}', UNREADABLE, "surrogate"),
    (b'{"id": 7, "name": "\xff"}', UNREADABLE, "no UTF-8"),
    (b'[{"id": 8}]', UNREADABLE, "an array"),
    (b'\t[{"id": 8}]', UNREADABLE, "an array"),
    (b" \t ", None, ""),
    (b"null", UNREADABLE, "no JSON object"),
    (b'{"id": 9.5, "tags": "x"}', LOST, "in id, tags"),
    (b'{"id": 10, "at": "2026-01-02 03:04:05.123456789"}', LOST, "in at"),
    (b'{"id": 11, "name": "\xc3\xa9 \xf0\x9f\x90\x9f", "more": 1}', None, ""),
    (b'{"id": 12, "name": "{"}', None, ""),
    (b'{"id": 99999999999999999999}', LOST, "in id"),
    (b'{"id": 12, "name": "{"', UNREADABLE, "no JSON object"),
]
CSV_LINES: list[Line] = [
    (b"id,name,total,at", None, ""),
    (b'1,"a ""q""",1.50,2026-01-02T03:04:05Z', None, ""),
    (b"two,b,1,", LOST, "in id"),
    (b"", None, ""),
    (b"3,b,1.234,", LOST, "in total"),
    (b"4,b", UNREADABLE, "number of values"),
    (b"5,b,1,,6", UNREADABLE, "number of values"),
    (b'6,"b,1,', UNREADABLE, "without its end"),
    (b'7,"b"c,1,', UNREADABLE, "not doubled"),
    (b"8,\xff,1,", UNREADABLE, "no UTF-8"),
    (b"\x00\x00\x00", UNREADABLE, "control characters"),
    (b"\x00\x00\x0013,b,1,", UNREADABLE, "NUL characters"),
    (b" \t", None, ""),
    (b'9,5" pipe,,', None, ""),
    (b"10,\xc3\xa9,1,2026-01-02 03:04:05", None, ""),
    (b"11,,1,yesterday", LOST, "in at"),
    (b"id,name,total,at", UNREADABLE, "the header once more"),
    (b"12,x,2,", None, ""),
]


def letters_of(flow: Flow, table: str) -> list[dict[str, Any]]:
    """Return the letters by file and line."""
    records = replace(flow, table=table).records()
    return sorted(records, key=lambda letter: (letter["file"], letter["line"] or 0, letter["record"]))


def shown(record: bytes) -> str:
    """Return a record as its letter has it."""
    try:
        return record.decode()
    except UnicodeDecodeError:
        return f"hex:{record.hex().upper()}"


@pytest.mark.parametrize(
    ("kind", "lines", "columns", "split"),
    [
        ("jsonl", JSON_LINES, COLUMNS, 128 * 1024),
        ("csv", CSV_LINES, CSV_COLUMNS, 128 * 1024),
        ("csv", CSV_LINES, CSV_COLUMNS, 100),
    ],
    ids=["json", "csv", "csv in splits"],
)
def test_each_kind_of_bad_line_is_one_letter_and_the_others_are_as_they_are_without(
    new_flow: NewFlow, kind: str, lines: Sequence[Line], columns: str, split: int
) -> None:
    flow, plain = new_flow(), replace(new_flow(), table=f"flows.plain_{kind}_{split}")
    options = {"header": True} if kind == "csv" else {}
    for folder, wanted in (("all", lines), ("good", [line for line in lines if line[1] is None])):
        (flow.inbox / folder).mkdir(parents=True)
        # The first file has no record that can be read but one, the last has no end of its last line.
        first, end = lines[0][0], b"".join(each[0] + b"\r\n" for each in wanted)
        (flow.inbox / folder / f"1.{kind}").write_bytes(first + b"\n" if kind == "csv" else b"")
        (flow.inbox / folder / f"2.{kind}").write_bytes(b"\xef\xbb\xbf" * (kind == "csv") + end.removesuffix(b"\r\n"))

    def source(folder: str) -> Files:
        path = f"{flow.inbox}/{folder}/*.{kind}"
        return Files(path, format="csv" if kind == "csv" else "json", options=options, schema=columns)

    table = f"letters.{kind}_{split}"
    flow = replace(flow, spark=flow.spark.newSession())
    flow.spark.conf.set("spark.sql.files.maxPartitionBytes", split)
    report = append(flow, "run 1", source=source("all"), dead_letter=DeadLetter(table=table, max_share=0.9))
    append(plain, "run 1", source=source("good"))
    order: Any = lambda row: row["id"]  # noqa: E731  # a key
    assert sorted(flow.records(), key=order) == sorted(plain.records(), key=order)
    expected: list[tuple[Any, ...]] = [
        (number, shown(record), kind, words)
        for number, (record, kind, words) in enumerate(lines, 1)
        if kind is not None
    ]
    letters = letters_of(flow, table)
    if split == 100:
        # Lines are counted up to the end of the first split.
        counted = sum(each["line"] is not None for each in letters)
        assert 0 < counted < len(letters)
        expected = [*expected[:counted], *((None, *each[1:]) for each in expected[counted:])]
        letters = sorted(letters, key=lambda each: each["record"])
        expected.sort(key=lambda each: each[1])
    assert [(each["line"], each["record"], each["error_class"]) for each in letters] == [each[:3] for each in expected]
    assert [
        each["reason"] for each, (*_, words) in zip(letters, expected, strict=True) if words not in each["reason"]
    ] == []
    assert {(each["target"], each["source"], each["run"], each["repaired"]) for each in letters} == {
        (flow.table, "inbox", "dag run 1 task -1", None)
    }
    assert all(each["file"].endswith(f"/all/2.{kind}") for each in letters)
    assert report.dead_letters == len(expected)
    assert report.batch_rows == len(flow.records())


def test_letters_are_kept_once_however_drivers_end(flow: Flow) -> None:
    letter = DeadLetter(table="letters.once", max_share=0.5)
    bad = {"id": "x", "name": "bad"}
    flow.arrive("1.jsonl", event(1), bad, bad, event(2))
    for phase in ("dead letters", "write", "write"):
        with pytest.raises(Killed):
            append(flow, "run 1", InterruptedProgress(at=phase, then=kill), dead_letter=letter)
    # Killed between both commits: the letters are there, and the rows are not.
    before = letters_of(flow, letter.table)
    assert [(each["line"], each["record"]) for each in before] == [(2, before[0]["record"]), (3, before[0]["record"])]
    # A driver that has no other letters commits nothing.
    assert len(replace(flow, table=letter.table).loaded().snapshots()) == 1
    # Another batch has the same file, at another place of what is read.
    flow.arrive("0.jsonl", event(3), {"id": None, "name": "null"}, event(4))
    given: dict[str, Any] = {"dead_letter": letter, "deduplicate_by": ("id",)}
    report = append(flow, "run 2", **given)
    assert (report.outcome, report.rows_appended, report.dead_letters) == (Outcome.APPLIED, 4, 3)
    letters = letters_of(flow, letter.table)
    assert [each for each in letters if each["file"].endswith("1.jsonl")] == before
    assert [(each["line"], each["error_class"]) for each in letters] == [(2, "NULL_KEY"), (2, LOST), (3, LOST)]
    repeated = append(flow, "run 2", **given)
    assert (repeated.outcome, repeated.dead_letters) == (Outcome.ALREADY_APPLIED, 3)
    assert letters_of(flow, letter.table) == letters


def test_a_driver_that_was_slower_with_the_same_letters_adds_none(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = DeadLetter(table="letters.raced", max_share=0.5)
    flow.arrive("0.jsonl", event(0), {"id": "w"})
    append(flow, "run 0", dead_letter=letter)
    flow.arrive("1.jsonl", event(1), {"id": "x"})
    added, others = IcebergFormatTable.append, ["run 2"]

    def slowly(table: IcebergFormatTable, commit: AppendCommit, progress: Progress) -> AppliedCommit | None:
        # It has looked at the table of letters, and another driver commits before it does.
        if commit.action == "dead-letters" and others:
            append(flow, others.pop(), dead_letter=letter)
        return added(table, commit, progress)

    monkeypatch.setattr(IcebergFormatTable, "append", slowly)
    report = append(flow, "run 1", dead_letter=letter)
    assert (report.outcome, events_of(flow)) == (Outcome.NOTHING_NEW, [(0, "a"), (1, "a")])
    assert [each["run"] for each in letters_of(flow, letter.table)] == ["dag run 0 task -1", "dag run 2 task -1"]


def test_too_many_letters_refuse_the_run_before_anything_is_written(flow: Flow) -> None:
    flow.arrive("1.jsonl", event(1), {"id": "x"}, event(None), event(2))
    letter = DeadLetter(table="letters.none", max_share=0.49)
    words = r"2 of 4 records .* max_share=0\.49 .*2 in .*1\.jsonl, the first is its record 2.* nor to letters\.none"
    with pytest.raises(BadInputError, match=words):
        flow.apply(dead_letter=letter, delete_when=None)
    assert not any(flow.catalog().table_exists(name) for name in (flow.table, letter.table))
    (flow.inbox / "1.jsonl").write_text('{"id": 1}{"id": 2}\n')
    with pytest.raises(BadInputError, match=r"for this run; more than one value.*: write each record into a line of"):
        flow.apply(dead_letter=letter, delete_when=None)


def test_as_many_letters_as_the_share_says_are_no_greater_share(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(event(n) for n in range(71)), *({"id": f"x{n}"} for n in range(29)))
    report = flow.apply(dead_letter=DeadLetter(table="letters.exact", max_share=0.29), delete_when=None)
    assert (report.dead_letters, report.rows_inserted) == (29, 71)


def packed(rows: bytes) -> bytes:
    """Return a zip archive of a file."""
    with zipfile.ZipFile(made := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", rows)
    return made.getvalue()


@pytest.mark.parametrize(
    ("kind", "end", "line", "wrong", "says"),
    [
        ("json", "txt", b'{"id": 1, "name": "a"}\n', packed, "a zip archive, .*unpack it"),
        ("json", "txt", b'{"id": 1, "name": "a"}\n', lambda rows: rows.decode().encode("utf-16"), "'UTF-16'"),
        ("csv", "gz", b"1,a\n", lambda rows: gzip.compress(rows.decode().encode("utf-16-le")), "'UTF-16LE'"),
        ("csv", "ZST", b"1,a\n", lambda rows: zstandard.compress(rows.decode().encode("utf-16-be")), "'UTF-16BE'"),
    ],
    ids=["zip", "UTF-16", "packed UTF-16 without a mark", "of Zstandard"],
)
def test_a_file_that_is_no_text_is_refused_however_many_letters_may_be(
    flow: Flow, kind: str, end: str, line: bytes, wrong: Callable[[bytes], bytes], says: str
) -> None:
    flow.inbox.mkdir(parents=True)
    (flow.inbox / "1.txt").write_bytes(line * 2)
    (flow.inbox / f"2.{end}").write_bytes(wrong(line * 9))
    letter = DeadLetter(table=f"letters.of_no_text_{len(says)}", max_share=1)
    given: dict[str, Any] = {
        "source": Files(str(flow.inbox), format=kind, schema="id BIGINT, name STRING"),
        "dead_letter": letter,
    }
    for load in (lambda: append(flow, "run 1", **given), lambda: flow.apply(**given, delete_when=None)):
        with pytest.raises(BadInputError, match=rf"2\.{end} is .*{says}"):
            load()
    assert not any(flow.catalog().table_exists(name) for name in (flow.table, letter.table))


def test_rows_of_a_lake_table_are_letters_once_whatever_is_committed_to_it(new_flow: NewFlow) -> None:
    flow = new_flow(exclude_columns=(), delete_when=None)
    flow.make_table("id BIGINT NOT NULL, name STRING NOT NULL, n INT")
    flow.spark.sql("CREATE TABLE flows.letters_source (id BIGINT, name STRING, n BIGINT) USING iceberg")
    bad = "(NULL, 'b', 2), (NULL, 'b', 2), (3, NULL, 3), (4, 'd', 10000000000)"
    flow.spark.sql(f"INSERT INTO flows.letters_source VALUES (1, 'a', 1), {bad}")
    given: dict[str, Any] = {
        "source": LakeTable("flows.letters_source"),
        "dead_letter": DeadLetter(table="letters.lake_rows", max_share=0.8),
        "schema_contract": SchemaContract(wider_types="quarantine"),
    }
    with pytest.raises(BadInputError, match=r"4 of 5 records .* max_share=0\.79 .* in flows\.letters_source"):
        flow.apply("run 1", **{**given, "dead_letter": DeadLetter(table="letters.lake_rows", max_share=0.79)})
    assert flow.apply("run 1", **given).dead_letters == 4
    flow.spark.sql("INSERT INTO flows.letters_source VALUES (5, 'e', 5)")
    assert flow.apply("run 2", **given).dead_letters == 4
    assert flow.rows() == {1: ("a", 1), 5: ("e", 5)}
    letters = letters_of(flow, "letters.lake_rows")
    assert [(each["error_class"], each["file"], each["line"], each["record"]) for each in letters] == [
        ("NULL_VALUE", "flows.letters_source", None, '{"id":3,"name":null,"n":3}'),
        ("OTHER_TYPE", "flows.letters_source", None, '{"id":4,"name":"d","n":10000000000}'),
        *[("NULL_KEY", "flows.letters_source", None, '{"id":null,"name":"b","n":2}')] * 2,
    ]


def test_rows_of_a_lake_table_by_a_predicate_of_the_moment_are_those_that_were_judged(new_flow: NewFlow) -> None:
    flow = new_flow()
    replace(flow, table="flows.letters_moment").make_table("id BIGINT, name STRING")
    flow.spark.sql("INSERT INTO flows.letters_moment VALUES (1, 'a'), (NULL, 'b'), (NULL, 'later'), (2, 'later')")
    jvm: Any = flow.spark._jvm
    properties = jvm.java.lang.System
    given: dict[str, Any] = {
        "source": LakeTable(
            "flows.letters_moment", where="name <> java_method('java.lang.System', 'getProperty', 'letters.left_out')"
        ),
        "allow_sql": True,
        "deduplicate_by": ("id",),
        "dead_letter": DeadLetter(table="letters.of_a_moment", max_share=0.5),
    }
    cached = cached_rdds(flow.spark)
    properties.setProperty("letters.left_out", "later")
    later = InterruptedProgress(at="write", then=lambda: properties.setProperty("letters.left_out", ""))
    try:
        assert append(flow, "run 1", later, **given).dead_letters == 1
    finally:
        properties.clearProperty("letters.left_out")
    assert events_of(flow) == [(1, "a")]
    assert [each["record"] for each in letters_of(flow, "letters.of_a_moment")] == ['{"id":null,"name":"b"}']
    assert cached_rdds(flow.spark) <= cached


def test_letters_alone_are_kept_and_their_file_is_not_read_again(flow: Flow) -> None:
    flow.arrive("1.jsonl", {"id": "x"})
    letter = DeadLetter(table="letters.alone_in_files", max_share=1)
    report = append(flow, "run 1", dead_letter=letter)
    assert (report.outcome, report.dead_letters, flow.records()) == (Outcome.APPLIED, 1, [])
    assert append(flow, "run 2", dead_letter=letter).outcome is Outcome.NOTHING_NEW
    assert [each["run"] for each in letters_of(flow, letter.table)] == ["dag run 1 task -1"]


def test_rows_that_break_what_the_table_needs_are_letters_of_files_that_are_no_text(new_flow: NewFlow) -> None:
    flow = new_flow(exclude_columns=(), delete_when=None)
    flow.make_table("id BIGINT NOT NULL, name STRING NOT NULL, n INT")
    flow.inbox.mkdir(parents=True)
    rows = [{"id": 1, "name": "a", "n": 1}, {"id": None, "name": "b", "n": 2}, {"id": 3, "name": None, "n": None}]
    pq.write_table(pa.Table.from_pylist(rows), flow.inbox / "1.parquet")
    letter = DeadLetter(table="letters.rows", max_share=0.7)
    report = flow.apply(source=Files(f"{flow.inbox}/*.parquet"), dead_letter=letter, schema_contract=SchemaContract())
    assert (flow.records(), report.dead_letters, report.batch_rows) == ([rows[0]], 2, 1)
    assert [(each["error_class"], each["line"], each["record"]) for each in letters_of(flow, letter.table)] == [
        ("NULL_VALUE", None, '{"id":3,"name":null,"n":null}'),
        ("NULL_KEY", None, '{"id":null,"name":"b","n":2}'),
    ]


def test_a_letter_of_a_row_has_each_time_with_all_its_digits(new_flow: NewFlow) -> None:
    flow = new_flow(exclude_columns=(), delete_when=None)
    columns = "id BIGINT, at TIMESTAMP_NTZ, z TIMESTAMP, among ARRAY<STRUCT<at: TIMESTAMP>>"
    flow.make_table(columns)
    flow.inbox.mkdir(parents=True)
    second = 1_767_323_045 * 10**9
    zoned, among = pa.timestamp("us", "UTC"), pa.list_(pa.struct({"at": pa.timestamp("us", "UTC")}))

    def write(name: str, unit: str, *rows: tuple[int | None, int, int, int]) -> None:
        """Write rows of an id, and the nanoseconds of the three columns."""
        ids, at, z, inner = zip(*rows, strict=True)
        parts = {"ns": 1, "us": 1000}[unit]
        table = {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([(second + each) // parts for each in at], pa.timestamp(unit)),
            "z": pa.array([(second + each) // 1000 for each in z], zoned),
            "among": pa.array([[{"at": (second + each) // 1000}] for each in inner], among),
        }
        pq.write_table(pa.table(table), flow.inbox / name, version="2.6")

    write("1.parquet", "us", (None, 0, 5_000_000, 5_000_000), (None, 1_000, 0, 0), (None, 0, 0, 120_000))
    write("2.parquet", "ns", (1, 5_000, 0, 0), (2, 123_456_789, 1_000, 0), (None, 5_000, 0, 0))
    letter = DeadLetter(table="letters.times", max_share=0.9)
    report = flow.apply(source=Files(f"{flow.inbox}/*.parquet"), dead_letter=letter, schema_contract=SchemaContract())
    assert (report.dead_letters, report.batch_rows) == (5, 1)

    def record(number: int | None, *digits: str) -> str:
        at, z, inner = (f"2026-01-02T03:04:05.{each}" for each in digits)
        row = {"id": number, "at": at, "z": f"{z}Z", "among": [{"at": f"{inner}Z"}]}
        return json.dumps(row, separators=(",", ":"))

    assert sorted(each["record"] for each in letters_of(flow, letter.table)) == sorted(
        [
            # Those of whole milliseconds are written as before, so that their letters keep their ids.
            record(None, "000", "005", "005"),
            record(None, "000001", "000000", "000000"),
            record(None, "000000", "000000", "000120"),
            record(2, "123456789", "000001", "000000"),
            record(None, "000005", "000000", "000000"),
        ]
    )


def test_repaired_letters_are_applied_once_and_a_wrong_repair_is_named(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "letters.repaired"
    flow.arrive("1.jsonl", event(1), {"id": "x"}, {"id": "y"}, {"id": "z"})
    append(flow, "run 1", dead_letter=DeadLetter(table=table, max_share=0.8))
    ids = [letter["letter_id"] for letter in letters_of(flow, table)]

    def repair(letter: int, text: str) -> None:
        flow.spark.sql(f"UPDATE {table} SET repaired = '{text}' WHERE letter_id = '{ids[letter]}'")

    def replay(run: str, progress: Progress | None = None, letters: str = table) -> AppendReport:
        source = RepairedLetters(letters, name="letters")
        identity = RunIdentity.of("dag", run, "replay", "-1")
        spec = AppendSpec(catalog="lake_default", table=flow.table, source=source, run=identity)
        return append_batch(flow.spark, spec, progress or Progress())

    with pytest.raises(
        BadInputError, match=rf"{flow.table} is no table of dead letters, it lacks \['file', .*its name"
    ):
        replay("run 1", letters=flow.table)
    assert replay("run 1").outcome is Outcome.EMPTY_BATCH
    repair(0, '{"name": "b", "id": 2}')
    repair(1, '{"id": 3, "name": "c"}{"id": 4}')
    with pytest.raises(BadInputError, match=f"1 records .* in letter {ids[1]}.*more than one value"):
        replay("run 2")
    for nothing in ("{}", " { } ", ""):
        repair(1, nothing)
        with pytest.raises(BadInputError, match=f"1 records .* in letter {ids[1]}.*without a field.* or NULL where"):
            replay("run 2")
    repair(1, '{"ID": 3, "nme": "c"}')
    with pytest.raises(BadInputError, match=r"name \['ID', 'nme'\], and its columns are \['id', 'name'\]"):
        replay("run 2")
    repair(1, '{"id": 3, "name": "c"}')
    with pytest.raises(Killed):
        replay("run 2", InterruptedProgress(at="commit", then=kill))
    # Killed between the commit and the notes: the position knows the letters.
    with monkeypatch.context() as patch:
        patch.setattr(RepairedLettersSource, "after_commit", lambda *_: kill())
        with pytest.raises(Killed):
            replay("run 2")
    assert [replay(run).outcome for run in ("run 2", "run 3")] == [Outcome.ALREADY_APPLIED, Outcome.NOTHING_NEW]
    repair(2, '{"id": 4, "name": "d"}')
    report = replay("run 4")
    assert (report.outcome, report.rows_appended, report.batch_files) == (Outcome.APPLIED, 1, 1)
    assert replay("run 5").outcome is Outcome.NOTHING_NEW
    assert events_of(flow) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    noted = {letter["letter_id"] for letter in letters_of(flow, table) if letter["replayed_at"]}
    assert noted == {ids[2]}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (
            [
                '{"a": {"zip": "1"}}',
                '{"a": {"zip": "1", "ZIP": "2"}}',
                '{"a": {"more": 1, "deep": [{"n": 1}, {"n": 2, "m": null}]}}',
                '{"m": {"k": {"V": 1}}, "a": null}',
            ],
            r"\['a.ZIP', 'a.deep.m', 'a.more', 'm.V'\].* a struct<zip:string.* m map<string,struct<v:int>>",
        ),
        (['{"id": 1, "codes": {"1": "a"}}'], "name codes map<int,string>, and keys of JSON are texts"),
    ],
)
def test_what_a_repaired_letter_has_inside_a_column_is_not_lost(flow: Flow, texts: list[str], says: str) -> None:
    inside = "a STRUCT<zip: STRING, deep: ARRAY<STRUCT<n: INT>>>, m MAP<STRING, STRUCT<v: INT>>"
    flow.make_table(f"id BIGINT, {inside}, codes MAP<INT, STRING>")
    letters = flow.table.replace("flows.", "letters.")
    columns = "letter_id STRING, target STRING, file STRING, line BIGINT, put_aside_at TIMESTAMP, repaired STRING"
    replace(flow, table=letters).make_table(f"{columns}, replayed_at TIMESTAMP")
    rows = ", ".join(f"('{n}', '{flow.table}', 'f', {n}, now(), '{text}', NULL)" for n, text in enumerate(texts))
    flow.spark.sql(f"INSERT INTO {letters} VALUES {rows}")
    with pytest.raises(BadInputError, match=says):
        append(flow, "run", source=RepairedLetters(letters), schema_contract=SchemaContract(missing_columns="null"))
