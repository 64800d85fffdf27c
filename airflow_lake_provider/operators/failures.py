"""An error of this package as Airflow's task runner understands it."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import LakeProviderError


def as_task_failure(error: LakeProviderError) -> LakeProviderError:
    """Return ``error``; where repeating it cannot help, as one that also fails the task without a retry.

    :param error: any error of this package.
    :return: the error itself, or one of a class that is both its class and AirflowFailException.
    """
    if error.retry_may_help or isinstance(error, AirflowFailException):
        return error
    final = type(type(error).__name__, (type(error), AirflowFailException), {"__doc__": type(error).__doc__})
    failure: LakeProviderError = final(str(error))
    return failure
