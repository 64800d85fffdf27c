"""The part of an input that is applied follows from the table's memory: without Spark, with dates of years."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.positions import FilesPosition, SideFile
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate, MergeEngine
from airflow_lake_provider.contracts.author.sources import Files, OnSourceChange
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SUMS = Aggregation(aggregates={"n": "sum"})
SHAPE = {"format": "csv", "schema": "a"}
LOST = SourcePosition(
    generation=3,
    positions={"files": FilesPosition(files=None, side_file=SideFile("_lake-position-s-3.bin", 300))},
    shape=SHAPE,
)


def file(name: str, at: datetime = NOW) -> InputFile:
    return InputFile(f"s3://in/{name}", 1, str(int(at.timestamp() * 1000)))


def listed(
    *names: str, at: datetime = NOW, shape: Mapping[str, str] = SHAPE, modified: datetime | None = None
) -> FilesListing:
    files = tuple(file(name, modified or at) for name in names)
    return FilesListing(source_name="s", files=files, shape=shape, at=at)


def after(*listings: FilesListing, max_age: timedelta | None = timedelta(days=365)) -> SourcePosition:
    position = SourcePosition()
    for listing in listings:
        position = listing.position_after(position, max_age)
    return position


def decide(
    position: SourcePosition, listing: FilesListing, others: Mapping[str, SourcePosition] | None = None, **words: Any
) -> InputDecision:
    source = Files(
        path="s3://in/*", format="csv", name="s", on_source_change=words.pop("change", OnSourceChange.CONTINUE)
    )
    spec = UpsertSpec(catalog="c", table="shop.t", run=RunIdentity.of("r"), source=source, keys=("id",), **words)
    return decide_input(spec, AppliedState(position=position), listing, lambda: others or {})


def names(decision: InputDecision) -> list[str]:
    return [file.path.rpartition("/")[2] for file in decision.wanted.files]


def test_only_files_that_no_listing_had_are_wanted() -> None:
    position = after(listed("1/a", "1/b"), listed("2/a"))
    assert names(decide(position, listed("1/a", "1/b", "1/c"))) == ["c"]
    assert decide(position, listed("1/a", "2/a")).wanted.is_empty


def test_a_file_that_may_have_been_forgotten_is_neither_applied_nor_skipped() -> None:
    year_later = NOW + timedelta(days=400)
    position = after(listed("a"), listed("b", at=year_later))
    with pytest.raises(BadInputError) as refused:
        decide(position, listed("a", "b", at=year_later, modified=NOW))
    for said in ("2 of 2 files", "2026-06-01T23:59:59+00:00", "on_repeat='apply'", "max_file_age"):
        assert said in str(refused.value)
    everything = decide(position, listed("a", at=year_later, modified=NOW), on_repeat=OnRepeat.APPLY)
    assert names(everything) == ["a"]
    assert decide(everything.position, listed("a", at=year_later, modified=NOW)).wanted.is_empty
    assert names(decide(position, listed("c", at=year_later))) == ["c"]


def test_a_sum_remembers_a_file_for_ever() -> None:
    later = NOW + timedelta(days=4_000)
    first = decide(SourcePosition(), listed("a"), merge_engine=SUMS)
    second = decide(first.position, listed("b", at=later), merge_engine=SUMS)
    assert decide(second.position, listed("a", at=later, modified=NOW), merge_engine=SUMS).wanted.is_empty


@pytest.mark.parametrize("merge_engine", [Deduplicate(), SUMS])
def test_a_lost_list_is_refused_and_its_advice_works(merge_engine: MergeEngine) -> None:
    with pytest.raises(BadInputError, match=r"_lake-position-s-3\.bin") as refused:
        decide(LOST, listed("a"), merge_engine=merge_engine)
    assert "on_repeat='apply'" in str(refused.value)
    assert ("counted again" in str(refused.value)) == (merge_engine is SUMS)
    decision = decide(LOST, listed("a"), merge_engine=merge_engine, on_repeat=OnRepeat.APPLY)
    assert (names(decision), decision.position.generation) == (["a"], 4)
    assert decide(decision.position, listed("a"), merge_engine=merge_engine).wanted.is_empty


def test_files_of_other_listings_that_a_roll_back_may_have_taken_are_not_skipped() -> None:
    position = after(listed("1/a"), listed("2/a"))
    applied_state = AppliedState(position=position, newest=1)
    source = Files(path="s3://in/*", format="csv", name="s")
    spec = UpsertSpec(
        catalog="c", table="t.t", run=RunIdentity.of("r"), source=source, keys=("id",), on_repeat=OnRepeat.APPLY
    )
    decision = decide_input(spec, applied_state, listed("1/a"), dict)
    with pytest.raises(BadInputError, match="may have been applied"):
        decide(decision.position, listed("2/a"))


def test_a_change_of_the_source_is_said_and_replays_only_when_asked_to() -> None:
    position = after(listed("a"))
    changed = listed("a", "b", shape={**SHAPE, "schema": "b", "query": "q"})
    decision = decide(position, changed)
    assert (names(decision), decision.note.startswith("query, schema of the source changed")) == (["b"], True)
    assert decide(decision.position, changed).note == ""
    replayed = decide(position, changed, change=OnSourceChange.REPLAY)
    assert (names(replayed), replayed.repeats, decision.repeats) == (["a", "b"], True, False)
    assert decide(replayed.position, changed, change=OnSourceChange.REPLAY).wanted.is_empty
    with pytest.raises(BadInputError, match="query, schema of source s changed"):
        decide(position, changed, change=OnSourceChange.FAIL)
    # A position of a version that kept no shape.
    assert decide(SourcePosition(generation=1), changed, change=OnSourceChange.FAIL).note == ""


@pytest.mark.parametrize("other", [after(listed("a", "z")), LOST])
def test_what_another_name_has_consumed_or_may_have_is_not_counted_again(other: SourcePosition) -> None:
    others = {"old": other, "unrelated": after(listed("y"))}
    with pytest.raises(BadInputError, match="name='old'"):
        decide(SourcePosition(), listed("a", "b"), others, merge_engine=SUMS)
    (warning,) = decide(SourcePosition(), listed("a", "b"), others).warnings
    assert "under the name old" in warning
    assert decide(SourcePosition(), listed("c"), {"unrelated": after(listed("y"))}, merge_engine=SUMS).warnings == ()


def test_an_earlier_day_that_an_old_name_has_counted_is_not_counted_under_a_new_one() -> None:
    renamed = decide(SourcePosition(), listed("2/a"), {"old": after(listed("1/a"))}, merge_engine=SUMS)
    others = {"old": after(listed("1/a"))}
    with pytest.raises(BadInputError, match=r"1 of 2 inputs .* name='old'"):
        decide(renamed.position, listed("1/a", "1/late"), others, merge_engine=SUMS)
    assert names(decide(renamed.position, listed("2/a", "2/late"), others, merge_engine=SUMS)) == ["late"]
    own = decide(renamed.position, listed("2/a", "2/late"), {"old": after(listed("2/a"))}, merge_engine=SUMS)
    assert (names(own), own.warnings) == (["late"], ())
    # Rows that replace are the same once more.
    replaced = decide(renamed.position, listed("1/a"), others)
    assert (names(replaced), replaced.warnings) == (["a"], ())


def test_a_list_that_one_source_has_lost_does_not_stop_a_sum_of_another() -> None:
    decision = decide(after(listed("a")), listed("a", "b"), {"other": LOST}, merge_engine=SUMS)
    assert (names(decision), len(decision.warnings)) == (["b"], 1)


def test_two_queries_over_the_same_files_go_on_once_that_was_allowed() -> None:
    credit, debit = ({**SHAPE, "query": query} for query in ("credit", "debit"))
    others = {"credit": after(listed("a", "b", shape=credit))}
    with pytest.raises(BadInputError, match="on_repeat='apply'"):
        decide(SourcePosition(), listed("a", shape=debit), others, merge_engine=SUMS)
    allowed = decide(SourcePosition(), listed("a", shape=debit), others, merge_engine=SUMS, on_repeat=OnRepeat.APPLY)
    decision = decide(allowed.position, listed("a", "b", shape=debit), others, merge_engine=SUMS)
    assert (names(decision), decision.warnings) == (["b"], ())
    # The same query is the same source under another name.
    renamed = decide(SourcePosition(), listed("a", shape=credit), others, merge_engine=SUMS, on_repeat=OnRepeat.APPLY)
    with pytest.raises(BadInputError, match="twice"):
        decide(renamed.position, listed("a", "b", shape=credit), others, merge_engine=SUMS)
