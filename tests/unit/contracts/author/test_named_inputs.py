"""Queries over named inputs, changes and tables at a moment, as authors, forms and XCom give them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

SQL = "SELECT * FROM orders JOIN customers USING (id)"
BOTH = Query(SQL, over={"orders": Changes("shop.orders"), "customers": LakeTable("shop.customers")}, name="both")


def spec(read: Any, **changes: Any) -> UpsertSpec:
    run = RunIdentity.of("dag", "run", "task", "-1")
    given = {"catalog": "lake", "table": "mart.joined", "run": run, "source": read, "keys": ("id",), **changes}
    return UpsertSpec(**given)


def test_a_mapping_a_carried_spec_and_an_object_are_the_same_query() -> None:
    plain = {
        "type": "query",
        "sql": SQL,
        "name": "both",
        "over": {
            "orders": {"type": "changes", "table": "shop.orders"},
            "customers": {"type": "lake-table", "table": "shop.customers"},
        },
    }
    assert source(plain) == BOTH
    assert BOTH.to_mapping() == plain
    made = spec(BOTH)
    assert from_json(UpsertSpec, to_json(made)).checked() == made
    assert list(BOTH.inputs) == list(BOTH.lake_tables) == ["orders", "customers"]
    assert {"read-changes", "consumer-tags", "lake-table-source"} <= set(made.needs)


def test_the_digest_of_a_source_of_before_is_the_one_that_tables_have() -> None:
    # As written by the version without these arguments.
    assert to_json(LakeTable("a.b")) == '{"name":null,"on_source_change":"continue","table":"a.b","type":"lake-table"}'
    assert to_json(Query("SELECT 1", over=LakeTable("a.b"))) == (
        '{"name":null,"on_source_change":"continue","over":{"name":null,"on_source_change":"continue","table":"a.b",'
        '"type":"lake-table"},"sql":"SELECT 1","type":"query"}'
    )
    plain = spec(LakeTable("a.b", name="s")).digest_text()
    for change in ({"where": "id > 1"}, {"columns": ["id"]}, {"as_of": "5"}):
        assert spec(LakeTable("a.b", name="s", **change)).digest_text() != plain


def test_templates_in_inputs_are_rendered_and_what_is_known_beside_them_is_checked_before() -> None:
    query = Query(
        SQL, over={"orders": {"type": "changes", "table": "{{ t }}"}, "customers": LakeTable("a.b", as_of="{{ d }}")}
    )
    rendered = query.rendered(render).checked()
    assert rendered.lake_tables["orders"].table == "x.y"
    assert rendered.lake_tables["customers"].moment == "2026-01-01T00:00:00+00:00"
    with pytest.raises(InvalidSpecError, match="mode must be one of"):
        Query(SQL, over={"orders": {"type": "changes", "table": "{{ t }}", "mode": "sometimes"}})
    with pytest.raises(InvalidSpecError, match="is not of the form"):
        query.rendered(lambda value: render(value, "orders")).checked()


def render(value: Any, table: str = "x.y") -> Any:
    if isinstance(value, Source):
        return value.rendered(lambda below: render(below, table))
    if isinstance(value, dict):
        return {name: render(item, table) for name, item in value.items()}
    return str(value).replace("{{ t }}", table).replace("{{ d }}", "2026-01-01 01:00:00+01:00")


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({}, "must name 1 to 8 inputs, got 0"),
        ({f"t{number}": LakeTable("a.b") for number in range(9)}, "must name 1 to 8 inputs, got 9"),
        ({f"f{number}": Files("a.csv") for number in range(3)}, "may have 2 inputs of files at most, got f0, f1, f2"),
        ({"source": LakeTable("a.b")}, "and not by 'source', got 'source'"),
        ({"type": LakeTable("a.b")}, "needs a type, one of 'files'"),
        ({"a b": LakeTable("a.b")}, "up to 30 letters"),
        ({"_lake_x": LakeTable("a.b")}, "a letter first"),
        ({"a" * 31: LakeTable("a.b")}, "up to 30 letters"),
        ({"orders": LakeTable("a.b"), "Orders": LakeTable("a.c")}, "names an input twice"),
        (
            {"orders": Debezium("a", table="t")},
            r"over\['orders'\] must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic",
        ),
        ({"orders": BOTH}, "must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic"),
        ({"orders": LakeTable("a.b", name="n")}, r"over\['orders'\]: name and on_source_change belong to the Query"),
        ({"orders": 5}, r"over\['orders'\] must be a path"),
    ],
)
def test_inputs_that_no_query_can_have_are_refused_when_it_is_made(over: Any, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        Query("SELECT 1", over=over)


@pytest.mark.parametrize(
    ("read", "arguments", "said"),
    [
        (
            LakeTable("a.b", columns=["n"]),
            {},
            r"must have those of keys, and lack \['id'\]",
        ),
        (LakeTable("a.b", columns=["ID"]), {"order_by": ("at",)}, r"and lack \['at'\]"),
        (LakeTable("a.b", where="id = '${x}'"), {}, "where of a.b was refused for"),
        (Query("SELECT 1", over={"o": LakeTable("a.b", where="id = '${x}'")}), {}, "where of a.b was refused for"),
        (Changes("a.b"), {"branch": "audit"}, "Changes do not go with branch"),
        (BOTH, {"branch": "audit"}, "Changes do not go with branch"),
        (Query("SELECT 1", over=Changes("a.b")), {"branch": "audit"}, "Changes do not go with branch"),
    ],
)
def test_what_does_not_go_with_an_upsert_is_refused_before_spark(read: Source, arguments: Any, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        spec(replace(read, name="s"), **arguments)


def test_a_query_may_leave_out_keys_of_its_inputs_and_take_any_sql_on_request() -> None:
    narrow = LakeTable("a.b", columns=["n"], where="n = '${x}'")
    made = spec(Query("SELECT n AS id FROM source", over=narrow, name="s"), allow_sql=True)
    assert made.source.lake_tables == {"": narrow}
    assert spec(LakeTable("a.b", columns=["Id", "AT"], name="s"), order_by=("at",)).source.name == "s"


def test_keys_of_rows_to_delete_come_from_a_table_and_from_no_changes() -> None:
    given: dict[str, Any] = {"table": "a.b", "keys": ("id",)}
    assert DeleteRowsSpec(**given, keys_from=LakeTable("a.c", as_of="eod", columns=["id"])).keys_from is not None
    for read, said in (
        (Changes("a.c"), "not of a Changes"),
        (BOTH, "not of a Query"),
        (LakeTable("a.c", columns=["n"]), r"lack \['id'\]"),
    ):
        with pytest.raises(InvalidSpecError, match=said):
            DeleteRowsSpec(**given, keys_from=read)


def test_an_input_of_files_forgets_as_it_is_told_and_the_policy_is_no_part_of_what_is_applied() -> None:
    files = Files("a.csv", max_file_age=timedelta(days=3))
    first, other = (Query("SELECT 1", over={"f": each}, name="s") for each in (files, Files("a.csv")))
    assert first != other
    assert spec(first).digest_text() == spec(other).digest_text()
    assert spec(replace(first, on_source_change="replay")).digest_text() == spec(other).digest_text()
    assert first.files is None


def test_a_moment_is_the_same_as_text_and_as_a_time() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert LakeTable("a.b", as_of=noon) == LakeTable("a.b", as_of="2026-01-01 13:00:00+01:00")
    assert to_json(LakeTable("a.b", as_of=noon)).count("2026-01-01T12:00:00+00:00") == 1
    with pytest.raises(InvalidSpecError, match="a snapshot id as text"):
        LakeTable("a.b", as_of=5)  # type: ignore[arg-type]  # that is what is refused
    assert {field.name for field in fields(LakeTable)} >= {"table", "as_of", "where", "columns"}
