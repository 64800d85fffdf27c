"""Branches, tags, rollback and upgrade: main moves, and the table remembers what main has applied."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source, applied_runs
from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec, PublishBranchSpec, RollbackSpec
from tests.spark.formats.suite import FormatSuite, needs
from tests.spark.kept_tables import KeptTables
from tests.spark.metadata_change_flow import carry_out, upgrade_between_two_batches
from tests.spark.upsert_flow import Flow, NewFlow, row

ONE = {1: ("a", 1)}
TWO = {1: ("a", 1), 2: ("b", 2)}
THREE = {1: ("a", 1), 2: ("b", 2), 3: ("c", 3)}


def snapshots(flow: Flow) -> list[str]:
    """Return the snapshots in the order of their commits."""
    return [str(found) for found in flow.on_worker().facts.snapshots]


def generation(flow: Flow) -> int:
    """Return how often the source was committed, by main's properties."""
    return SourcePosition.read(flow.on_worker().facts.properties, "inbox").generation


class MetadataSuite(FormatSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def applied_thrice(
        cls, new_shared_flow: NewFlow, tmp_path_factory: pytest.TempPathFactory
    ) -> tuple[Flow, KeptTables]:
        flow = new_shared_flow()
        for number, name in enumerate("abc", 1):
            flow.arrive(f"{number}.jsonl", row(number, name, number))
            assert flow.apply(f"run {number}").outcome is Outcome.APPLIED
        return flow, KeptTables.of(flow.spark, (flow.table,), tmp_path_factory.mktemp("kept"))

    @pytest.fixture(scope="class")
    @classmethod
    def loaded_aside(
        cls, new_shared_flow: NewFlow, tmp_path_factory: pytest.TempPathFactory
    ) -> tuple[Flow, KeptTables]:
        flow = new_shared_flow()
        flow.arrive("1.jsonl", row(1, "a", 1))
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(2, "b", 2))
        assert flow.apply("run 2", branch="load").outcome is Outcome.APPLIED
        return flow, KeptTables.of(flow.spark, (flow.table,), tmp_path_factory.mktemp("kept"))

    @pytest.fixture
    def three_runs(self, applied_thrice: tuple[Flow, KeptTables]) -> Flow:
        """Return a table that three runs have put a row each into."""
        flow, kept = applied_thrice
        kept.put_back()
        assert flow.rows() == THREE
        return flow

    @pytest.fixture
    def with_branch(self, loaded_aside: tuple[Flow, KeptTables]) -> Flow:
        """Return a table with a row on main, and another on the branch ``load``."""
        flow, kept = loaded_aside
        kept.put_back()
        assert (flow.rows(), flow.rows("load")) == (ONE, TWO)
        return flow

    @needs("metadata-changes", "rollback")
    def test_a_run_that_was_rolled_back_applies_its_batch_again(self, three_runs: Flow) -> None:
        first, _, _ = snapshots(three_runs)
        report = carry_out(three_runs, RollbackSpec, snapshot_id=first)
        assert report.outcome is Outcome.DONE
        assert three_runs.rows() == ONE
        assert applied_of_source(three_runs.on_worker().facts, "inbox").newest == generation(three_runs) == 1
        assert len(report.snapshots_rolled_back) == len(report.run_keys_removed) == 2

        assert three_runs.apply("run 3").outcome is Outcome.APPLIED
        assert three_runs.rows() == THREE
        assert three_runs.apply("run 3").outcome is Outcome.ALREADY_APPLIED
        # The files of run 2 were in its listing, too.
        assert three_runs.apply("run 2").outcome in (Outcome.NOTHING_NEW, Outcome.ALREADY_APPLIED)
        assert three_runs.rows() == THREE

    @needs("rollback", "tags")
    def test_main_goes_back_to_a_moment_and_to_a_tag(self, three_runs: Flow) -> None:
        carry_out(three_runs, CreateTagSpec, tag="before run 3", snapshot_id=snapshots(three_runs)[1])
        at, _ = three_runs.on_worker().facts.main_log[0]
        moment = datetime.fromtimestamp(at / 1000, UTC)
        assert carry_out(three_runs, RollbackSpec, tag="before run 3").outcome is Outcome.DONE
        assert three_runs.rows() == TWO
        assert carry_out(three_runs, RollbackSpec, "other run", timestamp=moment).outcome is Outcome.DONE
        assert three_runs.rows() == ONE

    @needs("branches")
    @pytest.mark.parametrize("drop_branch", [False, True])
    def test_a_published_run_counts_as_applied(self, with_branch: Flow, drop_branch: bool) -> None:
        report = carry_out(with_branch, PublishBranchSpec, branch="load", drop_branch=drop_branch)
        assert report.outcome is Outcome.DONE
        assert with_branch.rows() == TWO
        facts = with_branch.on_worker().facts
        assert ("load" in facts.references) is not drop_branch
        assert report.committed == (str(facts.head()),)
        (key,) = report.run_keys_added
        assert key in RecentRunKeys.read(facts.properties)
        assert applied_runs(facts, key[:8]) == {key: str(facts.head())}

        # A retry, or a cleared task, also where it makes the branch anew.
        assert with_branch.apply("run 2", branch="load").outcome is Outcome.ALREADY_APPLIED
        # Publishing again, too.
        again = carry_out(with_branch, PublishBranchSpec, "other run", branch="load", drop_branch=drop_branch)
        assert again.outcome is Outcome.NOTHING_DUE
        assert with_branch.rows() == TWO

    @needs("metadata-changes-on-worker")
    def test_a_change_of_metadata_starts_no_spark(self, three_runs: Flow) -> None:
        assert carry_out(three_runs, CreateTagSpec, tag="yesterday").without_spark

    @needs("format-upgrade")
    def test_rows_run_keys_and_positions_stay_when_the_format_is_upgraded(self, flow: Flow) -> None:
        newest = self.capabilities.versions[-1]
        report = upgrade_between_two_batches(flow, newest)
        assert report.outcome is (Outcome.NOTHING_DUE if self.version == newest else Outcome.DONE)
