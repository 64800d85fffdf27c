"""Upserts by every strategy and with every merge engine, compared with a loop over their rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random, randrange
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Deletes, PartialUpdate
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, schema_contract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.formats.suite import ALL, COUNTING, FormatSuite, needs
from tests.spark.merge_model import CASES, FIRST_ROW, Row, apply_batch, held, random_batch
from tests.spark.merge_model import new_flow as flow_of_engine
from tests.spark.upsert_flow import SCHEMA, Flow, NewFlow, row

STRATEGIES = {name: pytest.param(name, marks=needs(f"strategy-{name}")) for name in (*COUNTING, "equality")}
EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "1"))
MERGED = [
    pytest.param(
        case,
        marks=needs(f"merge-{engine.kind}", *(["soft-deletes"] if engine.deletes is Deletes.SOFT else [])),
    )
    for case, engine in CASES.items()
]
AUDITS = Audits(queries={"no negative n": "SELECT * FROM audited WHERE n < 0", "few": "SELECT 1 FROM batch LIMIT 0;"})


class StrategySuite(FormatSuite):
    """Upserts by each strategy, at once and after an audit."""

    @needs("upsert", "create-table", "merge-deduplicate")
    @pytest.mark.parametrize("strategy", ["auto", *STRATEGIES.values()])
    def test_rows_are_replaced_deleted_and_added_over_many_batches(self, flow: Flow, strategy: str) -> None:
        flow.changes["strategy"] = strategy
        flow.arrive("1.jsonl", *(row(number, "a", number) for number in range(50)))
        report = flow.apply("run 1")
        assert report.strategy == (self.automatic if strategy == "auto" else strategy)
        is_counted = self.counts_rows and strategy != "equality"
        if self.counts_rows:
            assert report.rows_inserted == 50
        flow.arrive("2.jsonl", *(row(number, "b") for number in range(10, 20)), row(5, "", op="d"), row(77, "", op="d"))
        counts = [flow.apply("run 2")]
        flow.arrive("3.jsonl", *(row(number, "c") for number in range(15, 25)), row(5, "back"), row(60, "new"))
        counts.append(flow.apply("run 3"))
        if is_counted:
            found = [(each.rows_inserted, each.rows_updated, each.rows_deleted) for each in counts]
            assert found == [(0, 10, 1), (2, 10, 0)]
        expected = {number: ("a", number) for number in range(50)}
        expected |= dict.fromkeys(range(10, 20), ("b", 0)) | dict.fromkeys(range(15, 25), ("c", 0))
        expected |= {5: ("back", 0), 60: ("new", 0)}
        assert flow.rows_of_spark() == expected
        if strategy != "equality":
            assert flow.rows() == expected

    @needs("audits")
    @pytest.mark.parametrize("strategy", [STRATEGIES["positions"], STRATEGIES["merge"]])
    def test_a_batch_that_passes_is_published_as_one_commit_and_recognised(
        self, new_flow: NewFlow, strategy: str
    ) -> None:
        flow = new_flow(strategy=strategy, audits=AUDITS)
        flow.arrive("1.jsonl", row(1, "a", 1), row(2, "a", 2))
        first = flow.apply("run 1")
        flow.arrive("2.jsonl", row(1, "b", 3), row(2, "", op="d"), row(3, "b", 4))
        report = flow.apply("run 2")
        assert (report.audits_passed, report.audit_runs, report.attempts) == (("no negative n", "few"), 1, 1)
        assert (report.strategy, report.rows_updated, report.rows_deleted) == (strategy, 1, 1)
        assert flow.rows() == {1: ("b", 3), 3: ("b", 4)}
        facts = flow.on_worker().facts
        assert set(facts.references) == {"main"}
        newest = facts.newest()
        assert newest is not None
        assert str(newest.id) == report.committed[0]
        assert [flow.commits_of(key) for key in (first.run_key, report.run_key)] == [1, 1]
        assert facts.properties["lake.recent-run-keys"].startswith(f"{report.run_key}@")
        assert report.source_position == newest.summary["lake.source-position"]
        assert flow.apply("run 2").outcome is Outcome.ALREADY_APPLIED
        assert flow.apply("run 3").outcome is Outcome.NOTHING_NEW


class UpsertSuite(StrategySuite):
    """All of upserts, those by strategy included."""

    # Rows are merged before a format sees them. What it makes of them, each strategy shows in each version.
    deals: ClassVar[Mapping[str, Sequence[Any]]] = {"case": MERGED}

    @needs("upsert")
    def test_batches_merge_as_a_loop_over_their_rows_does(
        self, session: SparkSession, tmp_path: Path, case: str
    ) -> None:
        merge_engine, place = CASES[case], list(CASES).index(case)
        strategies = [name for name in COUNTING if self.has(f"strategy-{name}")] or ["auto"]
        for number in range(EXAMPLES):
            seed = f"{case} {randrange(10**9) if ALL else 1}"
            print(f"the batches of seed {seed!r}")
            random, folder = Random(seed), tmp_path / str(number)
            strategy = strategies[(place // 2 + number) % len(strategies)]
            flow = flow_of_engine(session, folder, merge_engine, self.layout(), self.flow_kind)
            model: dict[int, Row] = {}
            for run in range(3):
                batch = [*([] if run else [FIRST_ROW]), *random_batch(random)]
                flow.arrive(f"{run}.jsonl", *batch)
                flow.apply(f"run {run}", strategy=strategy)
                apply_batch(model, batch, merge_engine)
                assert held(flow) == model

    @needs("strategy-equality", "kept-values", "merge-partial-update")
    def test_an_upsert_that_looks_for_no_row_keeps_values_of_one(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a", 5))
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(1, "b", None))
        flow.apply("run 2", strategy="equality", merge_engine=PartialUpdate())
        assert flow.rows() == {1: ("b", 5)}

    @needs("schema-evolution")
    def test_a_batch_adds_and_widens_columns_only_where_that_is_allowed(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a", n=1))
        flow.apply("run 1")
        flow.arrive("2.jsonl", {**row(2, "b", n=2**40), "extra": 1.5})
        wider = Files(
            path=f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA.replace("n INT", "n BIGINT") + ", extra DOUBLE"
        )
        with pytest.raises(BadInputError, match="schema_contract"):
            flow.apply("run 2", source=wider, schema_contract=schema_contract("freeze"))
        report = flow.apply("run 2", source=wider)
        assert sorted(report.schema_changes) == ["added column extra double", "widened column n to bigint"]
        assert flow.rows() == {1: ("a", 1, None), 2: ("b", 2**40, 1.5)}

    @needs("kept-values")
    @pytest.mark.parametrize("strategy", [STRATEGIES["positions"]])
    def test_columns_that_the_batch_lacks_keep_their_values(self, flow: Flow, strategy: str) -> None:
        flow.changes["strategy"] = strategy
        flow.arrive("1.jsonl", row(1, "a", 5), row(2, "b", 6))
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(1, "c"), row(3, "d"))
        flow.apply("run 2", exclude_columns=("op", "n"), missing_columns=MissingColumns.KEEP)
        assert flow.rows() == {1: ("c", 5), 2: ("b", 6), 3: ("d", None)}

    @needs("lake-table-source")
    def test_another_lake_table_is_a_source_whose_snapshot_is_the_position(self, flow: Flow) -> None:
        other = replace(flow, table=f"{flow.table}_source", inbox=flow.inbox.with_name("other"))
        other.arrive("1.jsonl", row(1, "a", 1))
        other.apply("run 1")
        source = Query("SELECT id, upper(name) AS name, n, 'u' AS op FROM source", over=LakeTable(other.table))
        flow.apply("run 1", source=source)
        assert flow.rows() == {1: ("A", 1)}
        assert flow.apply("run 2", source=source).outcome is Outcome.NOTHING_NEW
        other.arrive("2.jsonl", row(2, "b", 2))
        other.apply("run 2")
        flow.apply("run 3", source=source)
        assert flow.rows() == {1: ("A", 1), 2: ("B", 2)}

    @needs("branches")
    def test_a_write_to_a_branch_leaves_main_and_the_properties_alone(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a"))
        flow.apply("run 1")
        properties = flow.properties()
        flow.arrive("2.jsonl", row(1, "a2"), row(2, "b"))
        report = flow.apply("run 2", branch="audit")
        assert flow.rows() == {1: ("a", 0)}
        assert flow.rows("audit") == {1: ("a2", 0), 2: ("b", 0)}
        assert flow.properties() == properties
        assert flow.commits_of(report.run_key, "audit") == 1
        assert flow.apply("run 2", branch="audit").outcome is Outcome.ALREADY_APPLIED
