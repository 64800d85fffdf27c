"""Dead letters of topics of a real broker, compared with lists of what was produced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, RepairedLetters
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.protobuf_shop import kind_of, shop
from tests.spark.append_flow import append
from tests.spark.sources.kafka.schema_registry import encoded, framed, record, schema_registry
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.sources.session_settings import given as settings
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, NewFlow, kill

COLUMNS = "id BIGINT, name STRING, total DECIMAL(6,2)"
UNREADABLE, LOST = "UNREADABLE_RECORD", "LOST_VALUE"
# A value, its class, and words of its reason; without these a record that can be read.
VALUES: list[tuple[bytes | None, str | None, str]] = [
    (b'{"id": 1, "name": "a", "total": 1.50}', None, ""),
    (b'{"id": 2', UNREADABLE, "no JSON object"),
    (b"poison", UNREADABLE, "no JSON object"),
    (b'{"id": "three"}', LOST, "a value that its type does not hold, in id"),
    (b'{"id": 4, "total": 1.234}', LOST, "in total"),
    (b'{"id": 5, "name": "\xff"}', UNREADABLE, "UTF-8"),
    (b'{"id": 6} {"id": 7}', UNREADABLE, "more than one value"),
    (b'\0\0\0\0\7{"id": 8}', UNREADABLE, "behind the id of a schema"),
    (b'{"ID": 9, "name": "b"}', UNREADABLE, "spells in another case"),
    (b'{"other": 10}', UNREADABLE, "none of the declared fields"),
    (None, UNREADABLE, "without a value"),
    (b'{"id": 11, "name": "\\n", "more": {}}\n', None, ""),
]


def topic(name: str, **arguments: Any) -> KafkaTopic:
    return KafkaTopic("kafka", name, **{"schema": COLUMNS, **arguments})


def letters_of(flow: Flow, letter: DeadLetter) -> list[dict[str, Any]]:
    """Return the letters by topic, partition and offset."""
    return sorted(replace(flow, table=letter.table).records(), key=lambda each: (each["file"], each["line"]))


def ids(flow: Flow) -> list[int]:
    return sorted(row["id"] for row in flow.records())


def shown(value: bytes | None) -> str | None:
    """Return a value as its letter has it."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    return f"hex:{value.hex().upper()}" if "\0" in text else text


def test_each_bad_value_is_one_letter_with_its_offset_and_the_topic_goes_on(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow, letter = new_flow(), DeadLetter(table="letters.topics", max_share=0.9)
    cluster.make("letters_json", 2)
    cluster.send("letters_json", *((1, None, value) for value, *_ in VALUES))
    # Of a transaction that is aborted nobody sees a record.
    cluster.transaction("letters_json", (0, None, b"aborted"), commits=False)
    given: dict[str, Any] = {"source": topic("letters_json"), "dead_letter": letter}
    with pytest.raises(Killed):
        append(flow, "run 1", InterruptedProgress(at="write", then=kill), **given)
    # Killed between both commits: the letters are there, and the rows are not.
    before = letters_of(flow, letter)
    report = append(flow, "run 1", **given)
    expected = [(n, shown(value), kind) for n, (value, kind, _) in enumerate(VALUES) if kind is not None]
    letters = letters_of(flow, letter)
    assert letters == before
    assert [(each["line"], each["record"], each["error_class"]) for each in letters] == expected
    assert {each["file"] for each in letters} == {"letters_json/1"}
    wanted = [words for *_, words in VALUES if words]
    assert [each["reason"] for each, words in zip(letters, wanted, strict=True) if words not in each["reason"]] == []
    assert (report.dead_letters, report.batch_rows, ids(flow)) == (len(expected), 2, [1, 11])
    assert append(flow, "run 2", **given).outcome is Outcome.NOTHING_NEW
    cluster.send("letters_json", (1, None, b'{"id": 12}'))
    assert append(flow, "run 3", **given).dead_letters == 0
    assert ids(flow) == [1, 11, 12]


def test_a_batch_of_letters_alone_moves_the_offsets(cluster: Cluster, new_flow: NewFlow) -> None:
    letter = DeadLetter(table="letters.alone", max_share=1)
    cluster.make("letters_alone")
    cluster.send("letters_alone", (0, None, b"poison"))
    given: dict[str, Any] = {"source": topic("letters_alone"), "dead_letter": letter}
    flow = new_flow()
    with pytest.raises(Killed):
        append(flow, "run 1", InterruptedProgress(at="commit", then=kill), **given)
    report = append(flow, "run 1", **given)
    assert (report.outcome, report.dead_letters, flow.records()) == (Outcome.APPLIED, 1, [])
    assert append(flow, "run 2", **given).outcome is Outcome.NOTHING_NEW
    keyed = replace(flow, table=f"{flow.table}_keyed", changes={"delete_when": None, "exclude_columns": ()})
    upserted = keyed.apply("run 1", **given)
    assert (upserted.outcome, upserted.dead_letters, keyed.records()) == (Outcome.APPLIED, 1, [])
    assert keyed.apply("run 2", **given).outcome is Outcome.NOTHING_NEW
    assert sorted(each["target"] for each in letters_of(flow, letter)) == sorted([flow.table, keyed.table])


def test_too_many_letters_of_a_topic_refuse_the_run_before_anything_is_written(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow, letter = new_flow(), DeadLetter(table="letters.none_of_a_topic", max_share=0.3)
    cluster.make("letters_many", 2)
    cluster.send(
        "letters_many", *((1, None, value) for value in (b'{"id": 1}', b"x", b'{"id": 2}', b"y", b'{"id":""}'))
    )
    given: dict[str, Any] = {"source": topic("letters_many"), "dead_letter": letter}
    words = (
        r"3 of 5 records .* max_share=0\.3 .*no JSON object in UTF-8: 2; a value that its type does not hold, in id: 1"
        r".*the first is offset 1 of partition 1 of topic letters_many.* nor to letters\.none_of_a_topic"
    )
    with pytest.raises(BadInputError, match=words):
        append(flow, "run 1", **given)
    assert not any(flow.catalog().table_exists(name) for name in (flow.table, letter.table))
    report = append(flow, "run 1", source=given["source"], dead_letter=replace(letter, max_share=0.6))
    assert (report.dead_letters, ids(flow)) == (3, [1, 2])


def test_rows_of_a_topic_that_lack_what_the_table_needs_are_put_aside_and_tombstones_delete(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow = new_flow(delete_when=None, exclude_columns=())
    letter = DeadLetter(table="letters.keyed_topic", max_share=0.9)
    flow.make_table("id BIGINT NOT NULL, name STRING NOT NULL")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (2, 'old')")
    cluster.make("letters_keyed")
    sent: list[tuple[str | None, Any]] = [
        ("1", {"name": "a"}),
        ("two", {"name": "b"}),
        ("2", None),
        ("3", {"name": None}),
        (None, {"name": "d"}),
        ("4", {"name": "e", "more": "new"}),
        ("5", "poison"),
    ]
    cluster.send("letters_keyed", *((0, key, value) for key, value in sent))
    report = flow.apply(
        source=topic("letters_keyed", schema="name STRING, more STRING", key_schema="id BIGINT"),
        dead_letter=letter,
        schema_contract=SchemaContract(new_columns="quarantine"),
    )
    assert flow.records() == [{"id": 1, "name": "a"}]
    assert (report.rows_inserted, report.rows_deleted, report.dead_letters) == (1, 1, 5)
    letters = letters_of(flow, letter)
    assert [(each["line"], each["error_class"], each["reason"].partition("; ")[2]) for each in letters] == [
        (1, LOST, "its key is two"),
        (3, "NULL_VALUE", "its key is 3"),
        (4, UNREADABLE, ""),
        (5, "NEW_COLUMN", "its key is 4"),
        (6, UNREADABLE, "its key is 5"),
    ]
    assert [each["record"] for each in letters[1:3]] == ['{"name": null}', '{"name": "d"}']
    texts = {3: '{"id": 3, "name": "c"}', 6: '{"id": 5, "name": "f"}'}
    for line, text in texts.items():
        flow.spark.sql(f"UPDATE {letter.table} SET repaired = '{text}' WHERE line = {line}")
    repaired = RepairedLetters(letter.table, name="letters")
    assert flow.apply("replay 1", source=repaired).batch_rows == len(texts)
    assert flow.apply("replay 2", source=repaired).outcome is Outcome.NOTHING_NEW
    assert flow.rows() == {1: ("a",), 3: ("c",), 5: ("f",)}


def test_frames_of_avro_that_cannot_be_decoded_are_put_aside(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, letter = new_flow(), DeadLetter(table="letters.of_avro", max_share=0.9)
    order = record("Order", id="long", name="string")
    good = [framed(1, encoded(order, {"id": number, "name": "é"})) for number in (1, 2)]
    bad = [framed(9, b"\2"), framed(1, b"\2\x40cut"), b'{"id": 3}', framed(7, b"\2"), framed(8, b"\2\2a")]
    cluster.make("letters_avro")
    cluster.send("letters_avro", *((0, None, value) for value in [good[0], *bad, good[1]]))
    source = KafkaTopic("kafka", "letters_avro", value_format="avro", registry="registry")
    with (
        schema_registry({1: order, 7: "string"}, {"letters_avro-value": 1}) as access,
        settings(cluster.spark, access.to_settings("registry")),
    ):
        with pytest.raises(UnsupportedError, match="is no record of Avro"):
            append(flow, "run 1", source=source)
        append(flow, "run 1", source=source, dead_letter=letter)
    assert ids(flow) == [1, 2]
    letters = letters_of(flow, letter)
    assert [(each["line"], each["record"]) for each in letters] == [(n, shown(value)) for n, value in enumerate(bad, 1)]
    reasons = [
        "has no schema 9",
        "does not fit",
        "does not begin with the id",
        "is no record of Avro",
        "has no schema 8",
    ]
    assert [each["reason"] for each, words in zip(letters, reasons, strict=True) if words not in each["reason"]] == []
    # What a retry heals ends the run, and no record is put aside.
    cluster.send("letters_avro", (0, None, good[0]))
    with (
        settings(cluster.spark, access.to_settings("registry")),
        pytest.raises(JobFailedError, match="does not answer"),
    ):
        append(flow, "run 2", source=source, dead_letter=letter)


def test_messages_of_protobuf_that_cannot_be_decoded_are_put_aside(
    cluster: Cluster, new_flow: NewFlow, tmp_path: Path
) -> None:
    flow, letter = new_flow(), DeadLetter(table="letters.of_protobuf", max_share=0.9)
    (tmp_path / "shop.desc").write_bytes(shop())
    order = kind_of("shop.Order")
    bad = [order(id=3).SerializeToString()[:-1], b"\0\0\0\1\2\2\2", b"poison", order(status=7).SerializeToString()]
    sent = [order(id=1).SerializeToString(), *bad, order(id=2).SerializeToString()]
    cluster.make("letters_protobuf")
    cluster.send("letters_protobuf", *((0, None, value) for value in sent))
    of: dict[str, Any] = {
        "value_format": "protobuf",
        "descriptors": str(tmp_path / "shop.desc"),
        "message": "shop.Order",
    }
    report = append(flow, "run 1", source=KafkaTopic("kafka", "letters_protobuf", **of), dead_letter=letter)
    assert (ids(flow), report.dead_letters) == ([1, 2], len(bad))
    letters = letters_of(flow, letter)
    records = [f"hex:{value.hex().upper()}" for value in bad]
    records[2] = "poison"
    assert [(each["line"], each["record"]) for each in letters] == list(enumerate(records, 1))
    assert {each["error_class"] for each in letters} == {UNREADABLE}
    assert "has no name for" in letters[3]["reason"]
    # Bytes as they are have no fault of their own.
    raw = KafkaTopic("kafka", "letters_protobuf", value_format="binary")
    flow = replace(flow, table=f"{flow.table}_raw")
    report = append(flow, "run 1", source=raw, dead_letter=letter)
    assert (report.dead_letters, sorted(row["value"] for row in flow.records())) == (0, sorted(sent))
