"""A dead letter is taken where a record can be put aside, and refused in words where not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, RepairedLetters, dead_letter
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import Evolution, SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.contracts.specs.spec_codec import spec_from_plain, spec_to_plain
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

TOPIC = KafkaTopic("kafka", "orders", schema="id BIGINT")
BASE: dict[str, Any] = {"table": "shop.orders", "source": Files("/in/*.csv"), "dead_letter": DeadLetter()}


def append(**changed: Any) -> AppendSpec:
    return AppendSpec(**{**BASE, **changed})


def upsert(**changed: Any) -> UpsertSpec:
    return UpsertSpec(**{**BASE, "keys": ("id",), **changed})


def of(path: str, **options: Any) -> Files:
    return Files(path, options=options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DeadLetter(max_share=1.1), ["max_share", "from 0 to 1"]),
        (lambda: DeadLetter(max_share=-0.1), ["max_share", "from 0"]),
        (lambda: DeadLetter(max_share="much"), ["max_share", "'much'"]),  # type: ignore[arg-type]  # what is refused
        (lambda: DeadLetter(table="letters"), ["'letters'"]),
        (lambda: append(dead_letter="lake_ops.letters"), ["dead_letter", "mapping"]),
        (lambda: append(dead_letter={"share": 1}), ["dead_letter", "share"]),
        (lambda: append(dead_letter=DeadLetter(table="shop.orders")), ["a table of its own"]),
        (
            lambda: append(source=Query("SELECT 1", over="/in/*.csv")),
            ["LakeTable, and Query", "made once more"],
        ),
        (
            lambda: append(source=PySparkFunction("shop.rows:of", over={"a": LakeTable("a.b")})),
            ["PySparkFunction", "made"],
        ),
        (lambda: append(source=RepairedLetters()), ["RepairedLetters", "what one record of it is"]),
        (
            lambda: append(source=Query("SELECT 1", over=TOPIC)),
            ["LakeTable, and Query", "made once more"],
        ),
        (lambda: upsert(source=Debezium("/in/*.json", "orders")), ["Debezium", "order"]),
        (lambda: upsert(source=DebeziumTopic("kafka", "orders", table="shop.orders")), ["DebeziumTopic", "order"]),
        (lambda: append(source=Changes("a.b")), ["Changes", "order"]),
        (lambda: upsert(is_complete=True), ["complete=True", "leave out dead_letter"]),
        (lambda: append(source=Files("/in/*.xml", options={"rowTag": "a"})), ["XML"]),
        (lambda: append(source=of("/in/*.json", multiLine=True)), ["leave out multiLine"]),
        (lambda: append(source=of("/in/*.csv", encoding="windows-1252")), ["UTF-8", "without an encoding"]),
        (lambda: append(source=of("/in/*.csv", escape="\\")), ["quotes", "doubled"]),
        (lambda: append(source=of("/in/*.csv", quote="")), ["quotes", "doubled"]),
        (lambda: append(source=of("/in/*.csv", unescapedQuoteHandling="SKIP_VALUE")), ["quotes", "doubled"]),
        (lambda: append(source=of("/in/*.csv", ignoreLeadingWhiteSpace=True)), ["leave out ignoreLeadingWhiteSpace"]),
        (lambda: upsert(source=RepairedLetters(), dead_letter=None, is_complete=True), ["must not replace a table"]),
        (lambda: append(dead_letter=None, schema_contract="quarantine"), ["'quarantine'", "give dead_letter"]),
        (
            lambda: append(dead_letter=None, schema_contract={"by_column": {"n": "quarantine"}}),
            ["'quarantine'", "give dead_letter"],
        ),
        (lambda: append(schema_contract={"by_column": {"n": "drop"}}), ["by_column['n']", "'discard_value'", "'drop'"]),
        (lambda: append(schema_contract={"by_column": "n"}), ["by_column", "'quarantine'"]),
        (
            lambda: upsert(dead_letter=None, is_complete=True, schema_contract="discard_value"),
            ["'discard_value'", "complete=True"],
        ),
        (
            lambda: upsert(source=Debezium("/in/*.json", "orders"), dead_letter=None, schema_contract="discard_value"),
            ["'discard_value'", "changes of rows"],
        ),
        (
            lambda: OverwritePartitionsSpec(table="a.b", source=RepairedLetters()),
            ["must not replace a table or a partition"],
        ),
    ],
)
def test_what_cannot_be_put_aside_is_refused_in_words(make: Any, words: list[str]) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        make()
    assert all(each in str(refused.value) for each in words), str(refused.value)


@pytest.mark.parametrize(
    "source",
    [
        of("/in/*.csv", sep="\t", quote="'", escape="'"),
        of("/in/*.csv", sep="\\t", header=True),
        of("/in/*.json", encoding="utf8"),
        of("/in/*.parquet"),
        of("{{ params.path }}"),
        TOPIC,
        KafkaTopic("kafka", "orders", value_format="avro", registry="registry"),
        KafkaTopic("kafka", "orders", value_format="protobuf", descriptors="/in/shop.desc", message="shop.Order"),
        KafkaTopic("kafka", "orders", value_format="binary"),
        LakeTable("a.b"),
        JdbcTable("db", "public.orders", watermark="changed"),
    ],
    ids=repr,
)
def test_records_are_put_aside_where_each_is_a_line_a_message_or_a_row(source: Source) -> None:
    assert append(source=source).dead_letter == DeadLetter()


@pytest.mark.parametrize("value", [0.05, 0, 1e-05, 0.29])
def test_a_share_may_come_as_the_text_that_a_template_renders(value: float) -> None:
    for rendered in (f" {value}", f"{value:E}"):
        assert DeadLetter(max_share=rendered) == DeadLetter(max_share=value)  # type: ignore[arg-type]  # as rendered


@pytest.mark.parametrize("value", ["", "5%", "0,05", "nan", "inf", "1_0", "0x1", "\u0660.5", "-"])
def test_a_text_that_is_no_number_is_no_share(value: Any) -> None:
    with pytest.raises(InvalidSpecError, match="max_share"):
        DeadLetter(max_share=value)


def test_a_contract_says_of_a_column_what_counts_for_it_alone() -> None:
    contract = SchemaContract(new_columns="freeze", by_column={"Note": "quarantine"})
    assert [(contract.of_new(name), contract.of_type(name)) for name in ("note", "other")] == [
        (Evolution.QUARANTINE, Evolution.QUARANTINE),
        (Evolution.FREEZE, Evolution.EVOLVE),
    ]
    given = append(schema_contract=contract)
    assert spec_from_plain(json.loads(to_json(spec_to_plain(given)))) == given
    assert given.digest_text() != append().digest_text()
    # Tables know runs by it, and drivers of before read it.
    assert "by_column" not in append().digest_text() + to_json(spec_to_plain(append()))


def test_it_crosses_the_border_and_is_no_part_of_what_is_applied() -> None:
    for make in (append, upsert):
        given = make(dead_letter={"table": "a.letters", "max_share": 0.5})
        assert given.dead_letter == DeadLetter(table="a.letters", max_share=0.5)
        assert spec_from_plain(json.loads(to_json(spec_to_plain(given)))) == given
        without = make(dead_letter=None)
        assert given.digest_text() == without.digest_text()
        # Drivers of before read it.
        assert "dead_letter" not in to_json(spec_to_plain(without))
    assert dead_letter(None) is None
