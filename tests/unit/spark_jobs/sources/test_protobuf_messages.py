"""Messages of Protobuf as rows: what Google's library has written is what a row has, or the value is a fault."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, UnsupportedError
from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_messages import FAULT, MessageRows
from tests.protobuf_shop import SCALARS, descriptor_set, field, kind_of, of_message, shop

INT = "type: TYPE_INT32"
ORDERS = MessageRows(shop(), "shop.Order")
ORDER = kind_of("shop.Order")
NOTHING: dict[str, Any] = {
    "id": 0,
    "status": "NEW",
    "at": None,
    "tags": [],
    "prices": [],
    "note": None,
    "gone": None,
    "count": None,
    "first": None,
    "lines": [],
    "by_number": [],
    "wrapped": None,
    "details": None,
    "before": None,
    "took": None,
    FAULT: None,
}
BITS = {"int32": 31, "sint32": 31, "sfixed32": 31, "int64": 63, "sint64": 63, "sfixed64": 63}
UNSIGNED = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}


def row_of(message: Any, rows: MessageRows = ORDERS) -> Any:
    """Return the row of a message that is written and read."""
    value = message if isinstance(message, bytes) else message.SerializeToString()
    return rows.rows(pa.array([value]))[0].as_py()


def fault_of(message: Any, rows: MessageRows = ORDERS) -> str:
    """Return why a value has no row; all its columns are NULL."""
    row = row_of(message, rows)
    fault = row.pop(FAULT)
    assert set(row.values()) == {None}
    return str(fault)


def test_what_is_not_set_is_null_where_the_message_can_tell() -> None:
    assert row_of(ORDER()) == NOTHING
    assert row_of(ORDER(count=0, note="", first={}, wrapped={})) == {
        **NOTHING,
        "count": 0,
        "note": "",
        "first": {"sku": "", "raw": b""},
        "wrapped": 0,
    }
    assert ORDERS.rows(pa.array([None], pa.binary())).to_pylist() == [None]


def test_each_kind_of_field_is_exact() -> None:
    order = ORDER(
        id=2**64 - 1,
        status=1,
        tags=["b", "", "a"],
        prices={"usd": 2**32 - 1, "eur": 0},
        gone={},
        lines=[{"sku": "ü"}, {}],
        by_number={2: {"raw": b"\0\xff"}, -1: {}},
        details={"a": [1.5, None, {"b": "ü"}]},
    )
    order.wrapped.value = -(2**63)
    order.at.FromDatetime(datetime(2026, 11, 30, 5, 0, 0, 123_456, tzinfo=UTC))
    order.took.seconds, order.took.nanos = -1, -999_999_999
    order.before.before.id = 2**64 - 1
    row = row_of(order)
    assert json.loads(row.pop("details")) == {"a": [1.5, None, {"b": "ü"}]}
    assert json.loads(row.pop("before")) == {"before": {"id": str(2**64 - 1)}}
    assert row == {
        "id": Decimal(2**64 - 1),
        "status": "PAID",
        "at": datetime(2026, 11, 30, 5, 0, 0, 123_456, tzinfo=UTC),
        "tags": ["b", "", "a"],
        # By key: equal maps are equal rows, whatever the order of their bytes.
        "prices": [("eur", 0), ("usd", 2**32 - 1)],
        "note": None,
        "gone": True,
        "count": None,
        "first": None,
        "lines": [{"sku": "ü", "raw": b""}, {"sku": "", "raw": b""}],
        "by_number": [(-1, {"sku": "", "raw": b""}), (2, {"sku": "", "raw": b"\0\xff"})],
        "wrapped": -(2**63),
        "took": {"seconds": -1, "nanos": -999_999_999},
        FAULT: None,
    }


def value_of(name: str) -> st.SearchStrategy[Any]:
    """Draw a value of a scalar type, its ends among them."""
    if name in BITS:
        return st.integers(-(2 ** BITS[name]), 2 ** BITS[name] - 1)
    if name in UNSIGNED:
        return st.integers(0, 2 ** UNSIGNED[name] - 1)
    of_float = st.floats(width=32 if name == "float" else 64, allow_nan=False)
    return {"bool": st.booleans(), "string": st.text(), "bytes": st.binary(), "status": st.integers(0, 1)}.get(
        name, of_float
    )


@given(st.data())
def test_any_value_of_any_scalar_type_comes_back(data: st.DataObject) -> None:
    rows, kind = MessageRows(shop(), "shop.Kinds"), kind_of("shop.Kinds")
    chosen = data.draw(st.lists(st.sampled_from([*SCALARS, "status"]), min_size=1, unique=True))
    values: dict[str, Any] = {}
    for name in chosen:
        values[f"a_{name}"] = data.draw(value_of(name))
        values[f"many_{name}"] = data.draw(st.lists(value_of(name), max_size=3))
        values[f"by_text_{name}"] = data.draw(st.dictionaries(st.text(), value_of(name), max_size=3))
        if name not in ("double", "float", "bytes", "string", "status"):
            values[f"of_{name}"] = data.draw(st.dictionaries(value_of(name), st.text(), max_size=3))
    row = row_of(kind(**values), rows)
    assert row[FAULT] is None
    spelled = {name: _spelled(name, value) for name, value in values.items()}
    assert {name: dict(row[name]) if isinstance(spelled[name], dict) else row[name] for name in values} == spelled


def _spelled(name: str, value: Any) -> Any:
    if not name.endswith("_status"):
        return value
    of_number = ["NEW", "PAID"]
    if isinstance(value, list):
        return [of_number[each] for each in value]
    return {key: of_number[each] for key, each in value.items()} if isinstance(value, dict) else of_number[value]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\x0a", "Error parsing message"),
        (ORDER(id=5).SerializeToString()[:-1], "Error parsing message"),
        (b"{}", "Error parsing message"),
        (ORDER(status=7), "status is 7, which shop.Status has no name for"),
        (ORDER(at={"nanos": 1}), "a time with nanoseconds"),
        (ORDER(at={"nanos": -1}), "which is none"),
        (ORDER(at={"seconds": 253_402_300_800}), "which is none"),
        (ORDER(at={"seconds": -62_135_596_801}), "which is none"),
        (ORDER(details={"a": float("nan")}), "(?i)nan"),
        (ORDER(id=5).SerializeToString() + b"\xfa\x01\x01a", "a field that the descriptors lack"),
        # Inside of what becomes JSON.
        (ORDER(before={"status": 7}), "status is 7, which shop.Status has no name for"),
        # In a message, in one of many, in a map, in an empty one, and in one that becomes JSON.
        (b"\x4a\x03\x7a\x01a", "a field that the descriptors lack"),
        (b"\x52\x03\x7a\x01a", "a field that the descriptors lack"),
        (b"\x5a\x07\x08\x01\x12\x03\x7a\x01a", "a field that the descriptors lack"),
        (b"\x3a\x03\x7a\x01a", "a field that the descriptors lack"),
        (b"\x72\x04\xfa\x01\x01a", "a field that the descriptors lack"),
    ],
)
def test_what_is_not_exact_is_a_fault_and_no_row(value: Any, says: str) -> None:
    assert re.search(says, fault_of(value))


def test_no_bytes_are_a_message_of_defaults() -> None:
    assert row_of(b"") == NOTHING


LINES = MessageRows(shop(), "shop.Order.Line")
LINE = kind_of("shop.Order.Line")(sku="a").SerializeToString()
FIVE = b"\0\0\0\1\2"


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        # As Confluent's serializers write it: one byte of zero for the first message, else how many places and each.
        (ORDERS, FIVE + b"\0" + ORDER(id=7).SerializeToString()),
        (ORDERS, FIVE + b"\2\0" + ORDER(id=7).SerializeToString()),
        (LINES, FIVE + b"\4\0\0" + LINE),
        (MessageRows(shop(), "shop.Kinds"), FIVE + b"\2\2" + kind_of("shop.Kinds")(a_int32=5).SerializeToString()),
    ],
)
def test_a_frame_of_a_registry_is_cut(rows: MessageRows, value: bytes) -> None:
    assert row_of(value, rows)[FAULT] is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (FIVE + b"\2\2", r"at \[1\] of its file where the declared one is at \[0\]"),
        (FIVE + b"\4\0\0" + LINE, r"at \[0, 0\] of its file"),
        (FIVE + b"\1", "ends before its message"),
        (FIVE, "ends before its message"),
        (b"\0\0", "ends before its message"),
        (FIVE + b"\xff\xff\xff\xff\xff\xff", "ends before its message"),
        (b'\0\0\0\1\2{"id": 1}', "ends before its message|of its file"),
    ],
)
def test_a_frame_of_another_message_is_a_fault(value: bytes, says: str) -> None:
    assert re.search(says, fault_of(value))


@pytest.mark.parametrize(
    ("descriptors", "name", "error", "says"),
    [
        (b"zz", "shop.Order", InvalidSpecError, "protoc --include_imports"),
        (shop()[: len(shop()) // 2], "shop.Order", InvalidSpecError, "protoc --include_imports"),
        (b"", "shop.Order", InvalidSpecError, "They have no message at all"),
        (shop(), "shop.Oder", InvalidSpecError, "did you mean 'shop.Order'"),
        (shop(), "Order", InvalidSpecError, "They have: shop.Kinds, shop.Order, shop.Order.Line$"),
        (shop(), "shop.Status", InvalidSpecError, "have no message 'shop.Status'"),
        (shop(), "google.protobuf.Empty", UnsupportedError, "has no fields"),
        (
            descriptor_set(f"name: 'M' {field('id', 1, INT)} {field('ID', 2, INT)}"),
            "shop.M",
            UnsupportedError,
            r"\['ID', 'id'\], which Spark takes for one column",
        ),
    ],
)
def test_descriptors_that_give_no_columns_are_refused(
    descriptors: bytes, name: str, error: type[LakeProviderError], says: str
) -> None:
    with pytest.raises(error, match=says):
        MessageRows(descriptors, name)


def test_a_message_of_the_older_syntax_has_null_for_what_is_not_set_and_no_row_without_what_it_requires() -> None:
    with_default = f"{INT} default_value: '5'"
    made = descriptor_set(
        f"name: 'M' {field('id', 1, INT, 'REQUIRED')} {field('n', 2, with_default)} "
        "extension_range { start: 100 end: 200 }",
        "name: 'Other'",
        syntax="proto2",
        more=f"extension {{ name: 'more' number: 100 label: LABEL_OPTIONAL {INT} extendee: '.shop.M' }}",
    )
    rows, kind = MessageRows(made, "shop.M"), kind_of("shop.M", made)
    assert row_of(kind(id=1), rows) == {"id": 1, "n": None, FAULT: None}
    assert fault_of(b"", rows) == "it lacks id"
    texts = descriptor_set(
        f"name: 'M' {field('text', 1, 'type: TYPE_STRING')} {field('texts', 2, 'type: TYPE_STRING', 'REPEATED')}",
        syntax="proto2",
    )
    for value in (b"\x0a\x01\xff", b"\x12\x01\xff"):
        assert fault_of(value, MessageRows(texts, "shop.M")) == "a text that is no UTF-8"
    # An extension has no column.
    assert fault_of(b"\x08\x01\xa0\x06\x07", rows) == "a field that the descriptors lack"


def test_messages_inside_each_other_become_json_where_they_return() -> None:
    made = descriptor_set(
        f"name: 'A' {field('b', 1, of_message('shop.B'))} {field('id', 2, INT)}",
        f"name: 'B' {field('a', 1, of_message('shop.A'), 'REPEATED')}",
    )
    rows, kind = MessageRows(made, "shop.A"), kind_of("shop.A", made)
    text = row_of(kind(b={"a": [{"b": {"a": [{"id": 3}]}}]}), rows)["b"]
    assert json.loads(text) == {"a": [{"b": {"a": [{"id": 3}]}}]}


def test_messages_that_all_have_each_other_inside_have_few_columns() -> None:
    names = [f"M{number}" for number in range(30)]
    fields = " ".join(field(each.lower(), place, of_message(f"shop.{each}")) for place, each in enumerate(names, 1))
    rows = MessageRows(descriptor_set(*(f"name: '{name}' {fields}" for name in names)), "shop.M0")
    assert {str(each.type) for each in rows.kind} == {"string"}


def test_equal_messages_have_equal_json_whatever_the_order_of_their_maps() -> None:
    named = field("named", 2, of_message("shop.A.NamedEntry"), "REPEATED")
    made = descriptor_set(
        f"name: 'A' {field('inner', 1, of_message('shop.A'))} {named} "
        "nested_type { name: 'NamedEntry' options { map_entry: true } "
        f"{field('key', 1, 'type: TYPE_STRING')} {field('value', 2, INT)} }}"
    )
    rows, kind = MessageRows(made, "shop.A"), kind_of("shop.A", made)
    orders = list(permutations(["alpha", "beta", "gamma", "delta", "eps"]))
    assert len({row_of(kind(inner={"named": dict.fromkeys(names, 1)}), rows)["inner"] for names in orders}) == 1
    assert len({row_of(ORDER(details=dict.fromkeys(names, 1)))["details"] for names in orders}) == 1


def test_fields_that_are_named_as_functions_of_messages_are_fields() -> None:
    names = ["Clear", "ByteSize", "DESCRIPTOR", "HasField", "IsInitialized", "DiscardUnknownFields", "class"]
    fields = " ".join(field(name, number, f"{INT} oneof_index: 0") for number, name in enumerate(names, 1))
    made = descriptor_set(f"name: 'M' {fields} oneof_decl {{ name: 'any' }}")
    rows = MessageRows(made, "shop.M")
    for number, name in enumerate(names, 1):
        row = row_of(bytes([number << 3, 7]), rows)
        assert row == {**dict.fromkeys(names), FAULT: None, name: 7}
