"""Topics of Protobuf of a real broker: each value as Google's library has written it, or refused with its place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.protobuf_shop import SCALARS, kind_of, shop
from tests.spark.append_flow import append
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.upsert_flow import NewFlow

FRAME = b"\0\0\0\1\2"
ORDER = kind_of("shop.Order")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the file of descriptors."""
    file = tmp_path / "shop.desc"
    file.write_bytes(shop())
    return file


def topic(name: str, place: Path, message: str = "shop.Order", **more: Any) -> KafkaTopic:
    """Return a topic of messages."""
    return KafkaTopic("kafka", name, value_format="protobuf", descriptors=str(place), message=message, **more)


def test_each_type_of_a_message_is_a_column_of_the_table(cluster: Cluster, new_flow: NewFlow, place: Path) -> None:
    flow, kind = new_flow(), kind_of("shop.Kinds")
    greatest = kind(
        a_int32=-(2**31), a_uint32=2**32 - 1, a_int64=-(2**63), a_uint64=2**64 - 1, a_double=0.1, a_float=0.5,
        a_bytes=b"\0\xff", a_string="é", a_bool=True, many_uint64=[2**64 - 1], by_text_bytes={"a": b"\0"},
        of_bool={True: "yes"},
    )  # fmt: skip
    cluster.make("kinds")
    cluster.send("kinds", (0, None, greatest.SerializeToString()))
    append(flow, "run 1", source=topic("kinds", place, "shop.Kinds"))
    (row,) = flow.records()
    assert set(row) >= {f"a_{name}" for name in SCALARS}
    assert (row["a_int32"], row["a_uint32"], row["a_int64"]) == (-(2**31), 2**32 - 1, -(2**63))
    assert (row["a_uint64"], row["many_uint64"]) == (Decimal(2**64 - 1), [Decimal(2**64 - 1)])
    assert (row["a_double"], row["a_float"], row["a_bytes"], row["a_string"]) == (0.1, 0.5, b"\0\xff", "é")
    assert (dict(row["by_text_bytes"]), dict(row["of_bool"]), row["a_status"]) == ({"a": b"\0"}, {True: "yes"}, "NEW")
    kinds = dict(flow.spark.table(flow.table).dtypes)
    assert (kinds["a_uint32"], kinds["a_uint64"], kinds["a_float"]) == ("bigint", "decimal(20,0)", "float")


def test_messages_are_added_once_with_or_without_a_frame(cluster: Cluster, new_flow: NewFlow, place: Path) -> None:
    flow = new_flow()
    full = ORDER(id=1, status=1, tags=["a", ""], prices={"eur": 2**32 - 1}, note="", lines=[{"sku": "x"}, {}])
    moment = datetime(2026, 11, 30, 5, 0, 0, 123_456, tzinfo=UTC)
    full.at.FromDatetime(moment)
    cluster.make("messages")
    cluster.send(
        "messages", (0, None, full.SerializeToString()), (0, None, FRAME + b"\0" + ORDER(id=2).SerializeToString())
    )
    source = topic("messages", place)
    append(flow, "run 1", source=source)
    first, second = sorted(flow.records(), key=lambda row: row["id"])
    assert (first["at"], first["status"], first["tags"], first["note"]) == (moment, "PAID", ["a", ""], "")
    assert (dict(first["prices"]), first["lines"]) == (
        {"eur": 2**32 - 1},
        [{"sku": "x", "raw": b""}, {"sku": "", "raw": b""}],
    )
    assert (second["at"], second["status"], second["note"], second["first"]) == (None, "NEW", None, None)
    assert append(flow, "run 2", source=source).outcome is Outcome.NOTHING_NEW
    bad = [
        ORDER(id=3).SerializeToString()[:-1],
        FRAME + b"\2\2",
        b'{"id": 1}',
        ORDER(status=7).SerializeToString(),
        None,
    ]
    cluster.send("messages", *((0, None, value) for value in bad))
    with pytest.raises(
        BadInputError, match="5 records of topic messages cannot be read: partition 0, offset 2: a va"
    ) as e:
        append(flow, "run 3", source=source)
    for says in (
        "offset 3: a value that its message does not fit: a frame of another message",
        "give descriptors of the",
    ):
        assert says in str(e.value)
    assert sorted(row["id"] for row in flow.records()) == [1, 2]


def test_the_last_message_of_a_key_wins_and_a_tombstone_deletes(
    cluster: Cluster, new_flow: NewFlow, place: Path
) -> None:
    flow = new_flow(keys=("id",), delete_when=None, order_by=(), exclude_columns=())
    cluster.make("keyed")

    def send(*pairs: tuple[int, str | None]) -> None:
        cluster.send(
            "keyed",
            *(
                (0, str(key), None if note is None else ORDER(id=9, note=note).SerializeToString())
                for key, note in pairs
            ),
        )

    # Key and value have a column of one name: it is that of the key.
    source = topic("keyed", place, key_schema="id BIGINT")
    send((1, "a"), (2, "a"), (1, "b"))
    flow.apply("run 1", source=source)
    send((2, None), (3, "c"))
    flow.apply("run 2", source=source)
    assert sorted((row["id"], row["note"]) for row in flow.records()) == [(1, "b"), (3, "c")]
    # A query reads what is inside of a message.
    sql = "SELECT id, lines[0].sku AS sku FROM source"
    cluster.make("asked")
    cluster.send("asked", (0, None, ORDER(id=5, lines=[{"sku": "x"}]).SerializeToString()))
    asked = replace(new_flow(), table=f"{flow.table}_asked")
    append(asked, "run 1", source=Query(sql, over=topic("asked", place)))
    assert [(int(row["id"]), row["sku"]) for row in asked.records()] == [(5, "x")]


def test_descriptors_that_are_not_there_or_lack_the_message_are_refused(
    cluster: Cluster, new_flow: NewFlow, place: Path
) -> None:
    cluster.make("lost")
    cluster.send("lost", (0, None, ORDER(id=1).SerializeToString()))
    with pytest.raises(BadInputError, match=r"descriptors='.*/none.desc' is no file that the driver finds"):
        append(new_flow(), "run 1", source=topic("lost", place.with_name("none.desc")))
    with pytest.raises(InvalidSpecError, match=r"did you mean 'shop\.Order'"):
        append(new_flow(), "run 1", source=topic("lost", place, "shop.Oder"))
