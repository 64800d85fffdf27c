from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator


@pytest.mark.parametrize("value", ["{{ params.foreign_files }}", "remove", "", "KEEP", None, True, ["keep"]])
def test_what_becomes_of_foreign_files_is_one_of_three_words_and_no_template(value: object) -> None:
    with pytest.raises(InvalidSpecError, match=r"foreign_files (?:must be one of 'refuse', 'keep'|is not t)"):
        LakeSnapshotExpiryOperator(task_id="t", table="shop.orders", foreign_files=value)  # type: ignore[arg-type]  # on purpose


def test_foreign_files_are_refused_unless_told_and_no_form_reaches_the_argument() -> None:
    assert "foreign_files" not in LakeSnapshotExpiryOperator.template_fields
    assert LakeSnapshotExpiryOperator(task_id="t", table="shop.orders").foreign_files.value == "refuse"
