"""Plans carry what a table's own format says of other writers, and say nothing of another format's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.capabilities import FORMATS, FormatCapabilities, Support
from airflow_lake_provider.contracts.capability_names import CAPABILITIES
from airflow_lake_provider.contracts.errors import RangeUnavailableError, UnsupportedError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.metadata_changes import PublishBranchSpec, RollbackSpec, TableUpgradeSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, TableState
from airflow_lake_provider.planning.early_refusals import refuse_incremental, refuse_row_change
from airflow_lake_provider.planning.metadata_changes import plan_publication, plan_upgrade
from airflow_lake_provider.planning.rollback_plan import plan_rollback
from airflow_lake_provider.tables.base import LoadedTable
from tests.table_facts import table_of

RUN: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("run")}
# What Iceberg's rules would take for a job of Flink that writes now, and for a column that got another type.
NOW = int(datetime.now(UTC).timestamp() * 1000)
OF_FLINK = {"flink.job-id": "job", "flink.max-committed-checkpoint-id": "7", "total-position-deletes": "3"}
FIRST = Snapshot(id="v 1", parent=None, at=NOW - 2000, schema_id=0)
SECOND = Snapshot(id="v@2", parent="v 1", at=NOW - 1000, summary=OF_FLINK, schema_id=1)
SCHEMAS = {
    number: {
        "identifier-field-ids": [1],
        "fields": [{"id": 1, "name": "id", "required": True, "type": kind}],
    }
    for number, kind in enumerate(("string", "long"))
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, Other.capabilities.name, Other.capabilities)


@dataclass
class Other(LoadedTable):
    """A table of a format without rules, whose history stands in its facts."""

    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        name="other", title="Other", driver="", declared={name: Support() for name in CAPABILITIES}
    )
    read: TableFacts

    @property
    def facts(self) -> TableFacts:
        return self.read

    def state(self) -> TableState:
        return TableState()

    def versions_since(self, at: int) -> Any:
        return iter([self.facts])


class WithWriters(Other):
    """One of a format that knows its writers."""

    def harmed_by_rollback(self, lost: Sequence[Snapshot], left: Sequence[Snapshot]) -> list[str]:
        return [f"a writer loses {lost[0].id} and has {left[0].id}"]

    def harmed_by_dropping(self, branch: str, gained: Sequence[Snapshot]) -> list[str]:
        return [f"a writer loses {branch} at {gained[0].id}"]

    def harmed_by_upgrade(self, version: int) -> str | None:
        return f"a writer knows no version {version}"

    def changed_by_upgrade(self, version: int) -> list[str]:
        return [f"readers learn version {version}"]

    def incomparable_since(self, snapshot: Snapshot) -> str | None:
        return f"nothing is known of {snapshot.id}"


def history(branch: str = MAIN) -> TableFacts:
    """Return a table whose branch has two commits; another branch, main, has the first."""
    facts = table_of(SECOND, FIRST, format_version=2)
    shape = replace(facts.shape, schemas=SCHEMAS, schema_id=1)
    heads = {MAIN: FIRST.id, branch: SECOND.id}
    refs = {name: Reference(name=name, snapshot=at, is_branch=True) for name, at in heads.items()}
    return replace(facts, references=refs, read_shape=lambda: shape)


def rollback(kind: type[Other]) -> tuple[str, ...]:
    return plan_rollback(kind(history()), RollbackSpec(**RUN, snapshot_id="v 1")).report.warnings


def publication(kind: type[Other]) -> tuple[str, ...]:
    spec = PublishBranchSpec(**RUN, branch="b", drop_branch=True)
    return plan_publication(kind(history("b")), spec).report.warnings


def upgrade(kind: type[Other]) -> tuple[str, ...]:
    spec = TableUpgradeSpec(**RUN, format_version=3, allow_other_writers=kind is WithWriters)
    return plan_upgrade(kind(history()), spec).report.warnings


@pytest.mark.parametrize(
    ("plan", "warnings"),
    [
        (rollback, ("a writer loses v@2 and has v 1",)),
        (publication, ("a writer loses b at v@2",)),
        (upgrade, ("readers learn version 3", "a writer knows no version 3")),
    ],
)
def test_a_plan_warns_of_the_writers_that_the_format_knows_and_of_no_others(plan: Any, warnings: tuple[str]) -> None:
    assert plan(Other) == ()
    assert plan(WithWriters) == warnings


def test_an_upgrade_that_the_format_knows_to_harm_a_writer_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"^shop.orders: a writer knows no version 3$"):
        plan_upgrade(WithWriters(history()), TableUpgradeSpec(**RUN, format_version=3))


def test_the_format_says_whether_rows_of_then_can_be_compared_with_those_of_now() -> None:
    spec = IncrementalSpec(
        **{**RUN, "table": "shop.sums"}, source="shop.orders", consumer="c", keys=("id",), query="SELECT 1"
    )
    spec = replace(spec, from_snapshot="v 1")
    refuse_incremental(spec, None, Other(history()))
    with pytest.raises(RangeUnavailableError, match=r"^nothing is known of v 1$"):
        refuse_incremental(spec, None, WithWriters(history()))


def test_a_predicate_that_only_spark_reads_is_left_to_the_driver() -> None:
    refuse_row_change(DeleteRowsSpec(**RUN, where="nowhere = 1"), Other(history()))
