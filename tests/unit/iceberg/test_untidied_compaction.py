"""Commits of main say that a compaction was cut off."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts
from airflow_lake_provider.iceberg.compaction_rules import is_untidied
from airflow_lake_provider.iceberg.manifest_rules import specs_due
from tests.table_facts import table_of

SPEC = CompactionSpec(catalog="lake", table="shop.orders", run=RunIdentity.of("dag", "run", "task", "-1"))
PARTLY = CompactionSpec(catalog="lake", table="shop.orders", run=SPEC.run, where="id < 5", rewrite_manifests=False)
OTHER = {"lake.action": "upsert", "deleted-data-files": "3"}
TIDIED = {"lake.action": "compaction", "lake.run-key": "b", "manifests-replaced": "3"}
REWRITTEN = {"lake.action": "compaction", "lake.run-key": "b", "deleted-data-files": "6"}
DELETES_REMOVED = {"lake.action": "compaction", "lake.run-key": "b", "removed-delete-files": "2"}
DELETES = {**REWRITTEN, "total-position-deletes": "4"}
MEMBERS = {
    "no commit": (SPEC, 3, [], True, False),
    "other commits": (SPEC, 3, [OTHER], True, False),
    "tidied": (SPEC, 3, [OTHER, TIDIED, REWRITTEN], True, False),
    "manifests left": (SPEC, 3, [OTHER, REWRITTEN], True, True),
    "deletes removed, manifests left": (SPEC, 3, [DELETES_REMOVED, REWRITTEN], True, True),
    "deletes removed, an earlier try": (PARTLY, 2, [{**DELETES, **DELETES_REMOVED, "lake.run-key": "a"}], False, True),
    "deletes written anew, version 2": (SPEC, 2, [{**DELETES_REMOVED, "total-position-deletes": "4"}], False, False),
    "no manifests left": (SPEC, 3, [OTHER, REWRITTEN], False, False),
    "manifests left that nobody wants merged": (PARTLY, 3, [REWRITTEN], True, False),
    "an earlier try of this run": (PARTLY, 2, [OTHER, {**DELETES, "lake.run-key": "a"}], False, True),
    "an earlier try that left no deletes": (PARTLY, 2, [OTHER, {**REWRITTEN, "lake.run-key": "a"}], False, False),
    "position deletes left, version 2": (SPEC, 2, [DELETES], False, True),
    "position deletes left, version 3": (SPEC, 3, [DELETES], False, False),
    "position deletes left, one part compacted": (PARTLY, 2, [DELETES], False, False),
    "a count that is none": (SPEC, 2, [{**DELETES, "deleted-data-files": "x"}], False, False),
}


def facts(summaries: list[dict[str, str]], format_version: int = 3) -> TableFacts:
    """Return those of a table whose main has commits with these summaries, newest first."""
    return table_of(
        *(Snapshot(id=str(9 - n), parent=str(8 - n), at=0, summary=summary) for n, summary in enumerate(summaries)),
        format_version=format_version,
        properties={"commit.manifest.target-size-bytes": "10"},
    )


@pytest.mark.parametrize("member", MEMBERS)
def test_a_cut_off_compaction_is_told_by_its_newest_commit(member: str) -> None:
    spec, version, summaries, small, untidied = MEMBERS[member]
    assert is_untidied(facts(summaries, version), spec, "a", lambda _: {0: [[5, 5] if small else [5]]}) is untidied


@pytest.mark.parametrize(
    ("sizes", "fewer", "as_many"),
    [
        ([], False, False),
        ([5], False, False),
        ([5, 5], True, True),
        ([10, 10], False, True),
        ([10, 9, 1], True, True),
        # Written with a larger target: a rewrite would leave more.
        ([30, 30], False, False),
    ],
)
@pytest.mark.parametrize("spec_id", [0, 3])
def test_manifests_are_merged_where_that_leaves_fewer_and_sorted_where_it_leaves_as_many(
    sizes: list[int], fewer: bool, as_many: bool, spec_id: int
) -> None:
    of_specs = {1: [[10], []], spec_id: [[10], sizes]}
    assert specs_due(facts([]), of_specs) == [spec_id] * fewer
    assert specs_due(facts([]), of_specs, sort=True) == [spec_id] * as_many
    # Main's head is such a rewrite.
    sorted_already = facts([{"lake.action": "rewrite-manifests"}])
    assert specs_due(sorted_already, of_specs, sort=True) == [spec_id] * fewer


def test_a_target_size_of_one_byte_makes_no_manifest_for_each_entry() -> None:
    tiny = table_of(properties={"commit.manifest.target-size-bytes": "1"})
    assert specs_due(tiny, {0: [[5_000, 5_000], [700]]}, sort=True) == []
