"""Main has commits whose input no position tells: what may be of it is judged input by input, and counted once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import TopicOffsets
from airflow_lake_provider.spark_jobs.sources.kafka.offsets import TopicListing
from airflow_lake_provider.spark_jobs.sources.named_inputs import InputsListing
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
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


def test_inputs_after_a_publication_are_not_new_among_the_inputs_of_their_source() -> None:
    listed = named(events=files("a", after=1), orders=files("b", after=2))
    assert len(decide(PUBLISHED, listed).wanted.files) == 2
    position = decide(PUBLISHED, listed).position
    words = refusal(position, named(events=files("a", after=1), other=files("c", after=3)))
    assert "other is new among the inputs of source s, and an append would add all of it" in words
    assert words.endswith("on_repeat='apply' adds all inputs once more")


def test_an_upsert_of_repaired_letters_applies_them_again() -> None:
    spec = UpsertSpec(**JOB, source=RepairedLetters("shop.letters", name="s"), keys=("id",))
    assert len(decide(PUBLISHED, letters("1", "2"), spec).wanted.files) == 2
    replaced = AppliedState(position=SourcePosition(generation=1), is_replaced=True, base="9")
    assert len(decide_input(spec, replaced, letters("1"), dict).wanted.files) == 1
    others = {"old": letters("1").position_after(SourcePosition(), None)}
    decision = decide_input(spec, AppliedState(), letters("1", "2"), lambda: others)
    assert ["they are applied again" in warning for warning in decision.warnings] == [True]
