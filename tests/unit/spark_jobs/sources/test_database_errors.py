"""Errors of databases by their codes: what a retry may mend, and what it cannot."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import AccessDeniedError, JobFailedError, LakeProviderError
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql import PostgreSql


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        # Transactions that were idle, or open, for too long.
        ("25P03", JobFailedError),
        ("25P04", JobFailedError),
        ("42501", AccessDeniedError),
        # A statement that writes: the class of the code tells.
        ("25006", None),
    ],
)
def test_a_transaction_that_the_server_has_ended_is_worth_a_retry(
    state: str, kind: type[LakeProviderError] | None
) -> None:
    assert PostgreSql().error_class(state, 0) is kind
