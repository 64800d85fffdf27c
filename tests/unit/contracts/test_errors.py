"""The tree of failures, and the name of a table."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts import errors
from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError, error_class

ALL = LakeProviderError.__subclasses__()
# A conflict, an outage, a lost answer or a table still to be made may pass; the rest stays as it is until changed.
PASSING = {
    "MissingTableError",
    "CommitConflictError",
    "UnknownOutcomeError",
    "CatalogUnavailableError",
    "JobFailedError",
}


@pytest.mark.parametrize("cls", ALL)
def test_an_error_is_found_by_the_name_a_driver_writes(cls: type[LakeProviderError]) -> None:
    assert error_class(cls.__name__) is cls


@pytest.mark.parametrize("name", ["", "KeyError", "LakeProviderError", "ErrorOfNextYear"])
def test_an_unknown_name_is_a_failed_job(name: str) -> None:
    assert error_class(name) is JobFailedError


def test_exactly_the_errors_that_may_pass_are_worth_a_retry_and_all_but_a_broken_invariant_are_safe() -> None:
    assert {cls.__name__ for cls in ALL if cls.retry_may_help} == PASSING
    assert [cls.__name__ for cls in ALL if not cls.retry_is_safe] == ["BrokenInvariantError"]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if line.startswith(("├", "└"))]
    assert drawn == [cls.__name__ for cls in ALL]
    assert all(cls.__doc__ for cls in ALL)


def test_refused_arguments_are_value_errors_too() -> None:
    assert {cls.__name__ for cls in ALL if issubclass(cls, ValueError)} == {
        "InvalidSpecError",
        "InvalidConnectionError",
    }
