"""A table rules out what the declaration of its format says that its version lacks."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.capability_names import CAPABILITIES, Capability
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.iceberg.table_obstacles import unfit_for
from tests.table_facts import table_of


@pytest.mark.parametrize("version", ICEBERG.versions)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_plain_table_rules_out_what_its_version_lacks_and_nothing_else(capability: str, version: int) -> None:
    why = unfit_for(table_of(format_version=version).shape, capability)
    assert (why is None) == (ICEBERG.gap(capability, version) is None), why


# The last is a word of authors that is no strategy, and so no capability of Iceberg's.
@pytest.mark.parametrize("capability", ["strategy-x", "strategy-", "strategy-positions-of-x", "strategy-auto"])
def test_a_strategy_that_another_format_declares_never_becomes_icebergs(
    monkeypatch: pytest.MonkeyPatch, capability: str
) -> None:
    monkeypatch.setitem(CAPABILITIES, capability, Capability("strategies", "reach rows as the other format does"))
    lacking = "nobody has written it: reach rows as the other format does"
    assert [unfit_for(table_of(format_version=each).shape, capability, ["id"]) for each in ICEBERG.versions] == [
        lacking for _ in ICEBERG.versions
    ]
    assert {each.reason: each.possible for each in ICEBERG.verdicts(2) if each.use == capability} == {lacking: False}
    with pytest.raises(UnsupportedError, match=f"'iceberg' lacks '{capability}', {lacking}; it has strategy-"):
        ICEBERG.refuse_lacking("shop.orders", (capability,))
