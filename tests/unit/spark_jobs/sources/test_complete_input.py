"""A source that is the whole table is no work only where its listing would show that a row has changed."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.positions import WatermarkPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, History, MergeEngine
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation
from airflow_lake_provider.spark_jobs.sources.jdbc.source import WatermarkListing, WholeListing
from airflow_lake_provider.spark_jobs.sources.named_inputs import InputsListing
from airflow_lake_provider.spark_jobs.sources.new_input import InputDecision, decide_input
from airflow_lake_provider.spark_jobs.sources.pyspark_function import BatchListing

RELATION = Relation(sql="t", what="t", table=("t",), columns=(), pages=())
FILES = FilesListing(source_name="s", files=(InputFile("s3://in/a.csv", 1, "1"),))
WHOLE = WholeListing(source_name="s", relation=RELATION)
ABOVE = WatermarkListing(source_name="s", relation=RELATION, upto=WatermarkPosition("w", 5))
FUNCTION = BatchListing(source_name="s", function="loads:orders")


def inputs(**listings: Listing) -> InputsListing:
    return InputsListing(source_name="s", whole=listings, wanted=listings)


@pytest.mark.parametrize(
    ("listed", "is_known"),
    [
        (FILES, True),
        (WHOLE, False),
        (ABOVE, False),
        (FUNCTION, False),
        (inputs(a=FILES), True),
        (inputs(a=FILES, b=WHOLE), False),
    ],
)
def test_equal_inputs_are_skipped_only_where_other_rows_would_be_other_inputs(listed: Listing, is_known: bool) -> None:
    spec = UpsertSpec(
        catalog="c",
        table="shop.t",
        run=RunIdentity.of("r"),
        source=Files("s3://in/*.csv", name="s"),
        keys=("id",),
        is_complete=True,
    )
    first = decide_input(spec, AppliedState(), listed, dict)
    assert first.skip_reason == ""
    again = decide_input(spec, AppliedState(position=first.position), listed, dict)
    assert bool(again.skip_reason) == is_known
    assert again.wanted == listed


@pytest.mark.parametrize(
    ("engine", "is_left_out"), [(Deduplicate(), True), (History(at="2026-01-02T00:00:00+00:00"), False)]
)
def test_files_of_any_age_are_the_next_delivery_of_a_history_that_says_its_time(
    engine: MergeEngine, *, is_left_out: bool
) -> None:
    def decide(day: int, modified: int, state: AppliedState) -> InputDecision:
        path = f"s3://in/{day}/a.csv"
        spec = UpsertSpec(
            catalog="c",
            table="shop.t",
            run=RunIdentity.of("r"),
            source=Files(path, name="s"),
            keys=("id",),
            merge_engine=engine,
            is_complete=True,
        )
        listed = FilesListing(source_name="s", files=(InputFile(path, 1, str(modified)),))
        return decide_input(spec, state, listed, dict)

    # Both days were copied at once, the second one first.
    first = decide(1, 2000, AppliedState())
    second = decide(2, 1000, AppliedState(position=first.position))
    assert bool(second.skip_reason) == is_left_out
