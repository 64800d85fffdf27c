"""Main has commits whose input no position tells: what may be of it is judged input by input, and counted once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.positions import Comparison, SnapshotPosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.contracts.author.lake_tables import Changes
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.changes import ChangesListing
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import TopicOffsets
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing
from airflow_lake_provider.spark_jobs.sources.lake_table import TableListing
from airflow_lake_provider.spark_jobs.sources.named_inputs import InputsListing
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
from airflow_lake_provider.spark_jobs.sources.pyspark_function import BatchListing
from airflow_lake_provider.spark_jobs.sources.repaired_letters import LettersListing

NOW = datetime(2026, 6, 1, tzinfo=UTC)
UNTIL = int(NOW.timestamp())
PUBLISHED = SourcePosition(generation=1).with_position(PublishedPosition(UNTIL))
JOB: dict[str, Any] = {"catalog": "lake", "table": "shop.t", "run": RunIdentity.of("d", "r", "t", "-1")}


def files(*names: str, after: int = 0) -> FilesListing:
    """List files that were modified so many seconds after the commit that no position tells."""
    listed = tuple(InputFile(f"s3://in/{name}", 1, str((UNTIL + after) * 1000)) for name in names)
    return FilesListing(source_name="s", files=listed, at=NOW)


def mixed(old: FilesListing, new: FilesListing) -> FilesListing:
    return FilesListing(source_name="s", files=(*old.files, *new.files), at=NOW)


def topic(end: int) -> TopicListing:
    offsets = TopicOffsets(id="a", earliest={"0": 0}, beginning={"0": 0}, end={"0": end})
    return TopicListing.of(offsets, None, "s", {})


def letters(*ids: str) -> LettersListing:
    listed = tuple(InputFile(f"letter {each}", 1, f"sha256:{each}") for each in ids)
    return LettersListing(source_name="s", at=NOW, files=listed, snapshot="1")


def named(**inputs: Listing) -> InputsListing:
    return InputsListing(source_name="s", at=NOW, whole=inputs, wanted=inputs)


def append(**changes: Any) -> AppendSpec:
    return AppendSpec(**{**JOB, "source": Files("s3://in/*", format="csv", name="s"), **changes})


def decide(position: SourcePosition, listed: Listing, spec: LoadSpec | None = None) -> InputDecision:
    return decide_input(spec or append(), AppliedState(position=position), listed, dict)


def applied_again(position: SourcePosition, listed: Listing) -> SourcePosition:
    return decide(position, listed, append(on_repeat="apply")).position


def refusal(position: SourcePosition, listed: Listing) -> str:
    with pytest.raises(BadInputError) as refused:
        decide(position, listed)
    return str(refused.value)


def test_files_that_were_not_in_a_path_applied_once_more_are_still_refused() -> None:
    assert "1 of 1 files, the first is s3://in/2/c" in refusal(PUBLISHED, files("2/c"))
    position = applied_again(PUBLISHED, files("2/c"))
    assert decide(position, files("2/c")).wanted.is_empty
    everything = mixed(files("1/a", "1/b", "2/c"), files("1/d", after=1))
    assert "2 of 4 files, the first is s3://in/1/a" in refusal(position, everything)
    position = applied_again(position, everything)
    assert [file.path for file in decide(position, mixed(everything, files("1/e", after=2))).wanted.files] == [
        "s3://in/1/e"
    ]


@pytest.mark.parametrize(
    "listed",
    [topic, lambda end: letters(*map(str, range(end))), lambda end: named(o=topic(end))],
    ids=["topic", "letters", "named"],
)
def test_what_has_no_time_is_asked_for_once_as_all_of_it_is_applied_then(listed: Any) -> None:
    assert "may be in the table" in refusal(PUBLISHED, listed(5))
    position = applied_again(PUBLISHED, listed(5))
    assert decide(position, listed(5)).wanted.is_empty
    assert not decide(position, listed(7)).wanted.is_empty
    # A later commit that no position tells is another matter.
    later = position.published([Snapshot(id="9", parent=None, at=UNTIL * 1000)])
    assert "may be in the table" in refusal(later, listed(7))


def test_each_input_of_a_query_is_judged_by_itself() -> None:
    position = named(events=files("a"), orders=topic(5)).position_after(PUBLISHED, None)
    newer = mixed(files("a"), files("b", after=1))
    assert "(orders: all that is new)" in refusal(position, named(events=files("a"), orders=topic(7)))
    assert "(orders: all that is new)" in refusal(position, named(events=newer, orders=topic(7)))
    assert "(events: 1 of 2 files, the first is s3://in/b)" in refusal(
        position, named(events=files("a", "b"), orders=topic(5))
    )
    assert "(events: 1 of 2 files, the first is s3://in/b; orders: all that is new)" in refusal(
        position, named(events=files("a", "b"), orders=topic(7))
    )
    assert len(decide(position, named(events=newer, orders=topic(5))).wanted.files) == 1
    position = applied_again(position, named(events=newer, orders=topic(7)))
    assert len(decide(position, named(events=mixed(newer, files("c", after=2)), orders=topic(9))).wanted.files) == 1
    assert "(events: 1 of 3 files" in refusal(position, named(events=mixed(newer, files("c")), orders=topic(9)))


def test_a_table_that_is_looked_up_beside_newer_files_and_a_batch_without_inputs_are_no_repeats() -> None:
    looked_up = TableListing(source_name="s", snapshot="7")
    listed = named(events=files("a", after=1), names=looked_up)
    assert len(decide(PUBLISHED, listed).wanted.files) == 1
    assert "names: all that is new" in refusal(PUBLISHED, named(names=looked_up))
    assert not decide(PUBLISHED, BatchListing(source_name="s", function="m:f")).wanted.is_empty


def test_inputs_after_a_publication_are_not_new_among_the_inputs_of_their_source() -> None:
    listed = named(events=files("a", after=1), orders=files("b", after=2))
    assert len(decide(PUBLISHED, listed).wanted.files) == 2
    position = decide(PUBLISHED, listed).position
    words = refusal(position, named(events=files("a", after=1), other=files("c", after=3)))
    assert "other is new among the inputs of source s, and an append would add all of it" in words
    assert words.endswith("on_repeat='apply' adds all inputs once more")


def test_the_refusal_names_each_way_out() -> None:
    words = refusal(PUBLISHED, files("a"))
    for way in (
        "LakeRollbackOperator to the snapshot where main is",
        "to a snapshot before that commit",
        "a path of newer files alone",
        "on_repeat='apply' to add all that is there once more",
    ):
        assert way in words


def test_an_upsert_of_repaired_letters_applies_them_again() -> None:
    spec = UpsertSpec(**JOB, source=RepairedLetters("shop.letters", name="s"), keys=("id",))
    assert len(decide(PUBLISHED, letters("1", "2"), spec).wanted.files) == 2
    replaced = AppliedState(position=SourcePosition(generation=1), is_replaced=True, base="9")
    assert len(decide_input(spec, replaced, letters("1"), dict).wanted.files) == 1
    others = {"old": letters("1").position_after(SourcePosition(), None)}
    decision = decide_input(spec, AppliedState(), letters("1", "2"), lambda: others)
    assert ["they are applied again" in warning for warning in decision.warnings] == [True]


MARKS = st.builds(PublishedPosition, st.integers(0, 9), of_files=st.booleans())


@given(MARKS, MARKS, st.none() | st.integers(0, 9))
def test_what_either_of_two_publications_may_have_brought_both_together_may_have(
    one: PublishedPosition, other: PublishedPosition, modified: int | None
) -> None:
    both = one.joined(other)
    assert both.may_have(modified) is (one.may_have(modified) or other.may_have(modified))
    assert PublishedPosition.from_plain(both.to_plain()) == both
    assert {one.compare(both), other.compare(both)} <= {Comparison.BEFORE, Comparison.EQUAL}


@pytest.mark.parametrize("plain", [-1, "1", None, [1], {"until": 1}, {"of_files": True}, {"of_files": 1, "x": 1}])
def test_a_moment_that_is_none_is_refused(plain: Any) -> None:
    with pytest.raises(ValueError, match="no moment"):
        PublishedPosition.from_plain(plain)


def test_an_upsert_of_changes_warns_once_of_rows_that_came_and_went_behind_its_position() -> None:
    spec = UpsertSpec(**JOB, source=Changes("shop.o", name="s"), keys=("id",))
    position = PUBLISHED.with_position(SnapshotPosition("5"))

    def warnings(listed: Listing, at: SourcePosition = position) -> list[str]:
        return [each for each in decide(at, listed, spec).warnings if "stay in shop.t" in each]

    changes = ChangesListing(source_name="s", upto="7")
    for listed, inputs in ((changes, ""), (named(o=changes), "o")):
        at = (
            position if not inputs else PUBLISHED.moved_inputs({"o": SourcePosition().moved(SnapshotPosition("5"))}, {})
        )
        (warning,) = warnings(listed, at)
        assert "rows that a commit without a position brought, and that the source gives no more," in warning
        assert warnings(replace(changes, upto="9"), decide(at, listed, spec).position) == []
    assert warnings(replace(changes, tells_deletes=False)) == []
    assert warnings(files("a")) == []
    assert warnings(changes, SourcePosition().moved(SnapshotPosition("5"))) == []
