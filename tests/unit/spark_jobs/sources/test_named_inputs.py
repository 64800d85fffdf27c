"""A run reads of several inputs what a model of sets says, and each has consumed that then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.lake_tables import Changes
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.changes import ChangesListing
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.lake_table import TableListing
from airflow_lake_provider.spark_jobs.sources.named_inputs import InputsListing, tells_deletes
from airflow_lake_provider.spark_jobs.sources.new_input import decide_input
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch

JOB: dict[str, Any] = {
    "catalog": "lake",
    "table": "a.b",
    "run": RunIdentity.of("dag", "run", "task", "-1"),
    "source": Query("SELECT * FROM source", over="/in/*.csv", name="q"),
}
LEFT_OUT = SchemaContract(exclude_columns=["_Change_Type"])
SPEC = partial(UpsertSpec, **JOB, keys=("id",))
YEAR, NOW = timedelta(days=365), datetime(2026, 6, 1, tzinfo=UTC)
# Numbers of files, and of the heads of tables: the order in which they come does not matter.
HEADS = st.integers(0, 3)
STEPS = st.fixed_dictionaries({"events": st.frozensets(st.integers(1, 6)), "orders": HEADS, "names": HEADS})


@dataclass
class Model:
    """Consumed files and heads, as plain sets and numbers."""

    files: set[int] = field(default_factory=set)
    heads: dict[str, int] = field(default_factory=dict)


def files_of(numbers: Any) -> FilesListing:
    files = tuple(InputFile(f"s3://in/{number}.csv", 1, "1") for number in sorted(numbers))
    return FilesListing(source_name="s", files=files, at=NOW, shape={"format": "x"})


def listing(step: dict[str, Any], names: tuple[str, ...]) -> InputsListing:
    text = {name: str(step[name]) if step[name] else None for name in ("orders", "names")}
    parts: dict[str, Any] = {
        "events": files_of(step["events"]),
        "orders": ChangesListing(source_name="s", upto=text["orders"]),
        "names": TableListing(source_name="s", snapshot=text["names"]),
    }
    whole = {name: parts[name] for name in names}
    return InputsListing(source_name="s", shape={"query": "q"}, whole=whole, wanted=whole)


@settings(deadline=None)
@given(
    st.lists(STEPS, min_size=1, max_size=6),
    st.sampled_from([("events", "orders", "names"), ("orders", "names"), ("events", "names"), ("names",)]),
)
def test_incremental_inputs_decide_and_tables_are_read_as_a_whole(
    steps: list[dict[str, Any]], names: tuple[str, ...]
) -> None:
    position, model = SourcePosition(), Model()
    for step in steps:
        listed = listing(step, names)
        new_files = step["events"] - model.files if "events" in names else set()
        moved = {name for name in ("orders", "names") if name in names and step[name] not in (0, model.heads.get(name))}
        is_due = bool(new_files) or "orders" in moved or ("names" in moved and names == ("names",))
        wanted = listed.beyond(position)
        assert wanted.is_empty is not is_due
        if not is_due:
            assert (wanted.identities, wanted.files) == ((), ())
            continue
        assert {int(file.path.rpartition("/")[2].removesuffix(".csv")) for file in wanted.files} == new_files
        if "orders" in names:
            since, upto = model.heads.get("orders"), step["orders"] if "orders" in moved else 0
            orders = wanted.wanted["orders"]
            assert (orders.since, orders.upto) == (since and str(since), str(upto) if upto else None)
        assert wanted.wanted["names"].snapshot == (str(step["names"]) if step["names"] else None)
        # A second look finds the same, and after it is consumed nothing.
        assert wanted.beyond(position).identities == wanted.identities
        position = listed.position_after(position, YEAR)
        model.files |= new_files
        model.heads |= {name: step[name] for name in moved}
        assert listed.beyond(position).is_empty
        assert position.shape == {"query": "q"}
        read = SourcePosition.read(position.to_properties("s"), "s")
        assert {name: read.of_input(name).snapshot for name in model.heads} == {
            name: str(head) for name, head in model.heads.items()
        }


def test_bare_deletes_are_told_by_a_column_of_what_is_made_of_them_or_refused() -> None:
    none: Any = None
    topic = RawBatch(rows=none, has_change_type=True, has_bare_deletes=True)
    # A delete of a lake table has the values that the row had last.
    table = RawBatch(rows=none, has_change_type=True)

    def made(*columns: str) -> Any:
        return SimpleNamespace(columns=list(columns))

    spec = SPEC()
    assert tells_deletes(made("id", "_change_type"), {"o": topic, "t": RawBatch(rows=none)}, spec)
    assert not tells_deletes(made("id"), {"t": table}, spec)
    with pytest.raises(BadInputError, match=r"topic in o delete rows.* rows of NULL\. Select _change_type, or"):
        tells_deletes(made("id"), {"o": topic, "t": table}, spec)


@pytest.mark.parametrize(
    ("spec", "deletes"),
    [
        (SPEC, True),
        (lambda: SPEC(merge_engine=Deduplicate(ignore_stale=True, deletes="soft"), order_by=("n",)), True),
        (lambda: SPEC(is_complete=True), False),
        (lambda: SPEC(delete_when="_change_type = 'd'", schema_contract=LEFT_OUT), False),
        (lambda: AppendSpec(**JOB), False),
    ],
)
def test_a_column_that_an_author_makes_tells_deletes_to_loads_that_delete(
    spec: Callable[[], LoadSpec], deletes: bool
) -> None:
    rows: Any = SimpleNamespace(columns=["id", "_CHANGE_TYPE"])
    assert tells_deletes(rows, {"": RawBatch(rows=rows)}, spec()) is deletes
    assert tells_deletes(rows, {}, spec()) is deletes


def test_deletes_that_an_author_tells_and_no_row_remembers_are_refused_beside_late_rows() -> None:
    rows: Any = SimpleNamespace(columns=["id", "_change_type"])
    spec = SPEC(merge_engine=Deduplicate(ignore_stale=True), order_by=("n",))
    with pytest.raises(BadInputError, match=r"_change_type deletes rows, and ignore_stale .*use deletes='soft'"):
        tells_deletes(rows, {}, spec)


@pytest.mark.parametrize(
    ("names", "covered"), [(("events", "orders", "names"), True), (("orders", "names"), True), (("names",), False)]
)
def test_a_position_tells_a_forgotten_run_unless_tables_alone_are_read(names: tuple[str, ...], covered: bool) -> None:
    listed = listing({"events": {1}, "orders": 1, "names": 1}, names)
    assert listed.is_covered_by(listed.position_after(SourcePosition(), YEAR)) is covered


def test_files_of_before_are_not_new_to_a_named_input_and_a_renamed_input_is_seen() -> None:
    alone = files_of({1, 2})
    position = alone.position_after(SourcePosition(), YEAR)
    listed = listing({"events": {1, 2, 3}, "orders": 1, "names": 1}, ("events", "orders", "names"))
    assert listed.new_inputs(position) == ("orders",)
    assert [file.path for file in listed.beyond(position).files] == ["s3://in/3.csv"]
    position = listed.position_after(position, YEAR)
    assert (listed.new_inputs(position), listed.beyond(position).is_empty) == ((), True)
    assert listed.consumed_by(position) == 4
    renamed = InputsListing(source_name="s", whole={"o": listed.whole["orders"]}, wanted={"o": listed.whole["orders"]})
    assert renamed.new_inputs(position) == ("o",)
    assert not renamed.beyond(position).is_empty
    assert (listed.bytes_of_files, files_of({1, 2}).bytes_of_files, files_of(()).bytes_of_files) == (None, 2, None)


def test_an_aggregation_asks_before_it_counts_all_of_an_input_that_is_new_to_its_source() -> None:
    position = listing({"events": {1}, "orders": 0, "names": 1}, ("events", "names")).position_after(
        SourcePosition(), YEAR
    )
    listed = listing({"events": {1, 2}, "orders": 1, "names": 1}, ("events", "orders", "names"))
    query = Query("SELECT 1", over={"orders": Changes("shop.orders")}, name="s")

    def spec(**changes: Any) -> UpsertSpec:
        run = RunIdentity.of("dag", "run", "task", "-1")
        given: dict[str, Any] = {"source": query, "merge_engine": Aggregation({"n": "sum"}), **changes}
        return UpsertSpec(catalog="lake", table="mart.sums", run=run, keys=("id",), **given)

    def decide(asked: UpsertSpec, state: AppliedState) -> list[str]:
        return [file.path for file in decide_input(asked, state, listed, dict).wanted.files]

    with pytest.raises(BadInputError, match="orders is new among the inputs of source s"):
        decide(spec(), AppliedState(position=position))
    new = ["s3://in/2.csv"]
    assert decide(spec(merge_engine=Deduplicate()), AppliedState(position=position)) == new
    both = ["s3://in/1.csv", "s3://in/2.csv"]
    assert decide(spec(on_repeat="apply"), AppliedState(position=position)) == both
    assert decide(spec(), AppliedState()) == both
    replaced = AppliedState(position=position.restarted(), is_replaced=True)
    assert decide(spec(), replaced) == both


@pytest.mark.parametrize(
    ("replayed", "applied"),
    [({}, {"on_repeat": "apply"}), ({"on_source_change": "replay"}, {})],
    ids=["apply", "replay"],
)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "single"])
def test_changes_that_are_applied_again_come_with_the_deletes_since_the_position(
    replayed: dict[str, Any], applied: dict[str, Any], is_named: bool
) -> None:
    def head(upto: str, query: str, **words: Any) -> Any:
        changes: Any = ChangesListing(source_name="s", upto=upto, shape={"query": query}, **words)
        if not is_named:
            return changes
        return InputsListing(source_name="s", shape=changes.shape, whole={"o": changes}, wanted={"o": changes})

    def wanted(listed: Any) -> tuple[str | None, str | None, str | None]:
        source = Query("SELECT 1", over={"o": Changes("a.o")}, name="s", **replayed)
        asked = UpsertSpec(**{**JOB, "source": source}, keys=("id",), **applied)
        decided: Any = decide_input(asked, AppliedState(position=position), listed, dict).wanted
        only = decided.wanted["o"] if is_named else decided
        return only.since, only.deletes_since, only.upto

    position = head("500", "a").position_after(SourcePosition(), YEAR)
    assert wanted(head("900", "b")) == (None, "500", "900")
    assert wanted(head("500", "b")) == (None, None, "500")
    assert wanted(head("900", "b", tells_deletes=False)) == (None, None, "900")
