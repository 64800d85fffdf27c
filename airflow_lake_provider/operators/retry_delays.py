"""An error of this package as Airflow's task runner understands it, and the delay of its retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, ExceptionRetryPolicy, RetryRule
from airflow.sdk.bases.operator import OPERATOR_DEFAULTS
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import LakeProviderError

if TYPE_CHECKING:
    from airflow.sdk import RetryPolicy


class UnaskedDelay(timedelta):
    """The site's delay of a retry, as long as no author has given one; a copy of it is still told from theirs."""


UNASKED_DELAY = UnaskedDelay(seconds=OPERATOR_DEFAULTS["retry_delay"].total_seconds())


class ErrorRetryPolicy(ExceptionRetryPolicy):
    """Delays of retries by the type of error: a conflict soon, an outage later, all else as Airflow's own.

    It decides no more than that: what a retry cannot mend is an AirflowFailException, about which no policy is asked.
    """

    def __init__(self) -> None:
        delays = {error: error.retry_after for error in LakeProviderError.__subclasses__() if error.retry_after}
        super().__init__(
            [RetryRule(error, retry_delay=delay, reason=error.__name__) for error, delay in delays.items()]
        )


BY_ERROR = ErrorRetryPolicy()


class RetryDelays(BaseOperator):
    """Part of an operator whose retries wait by the type of error, unless its author says how long.

    An operator of Airflow's, as ``default_args`` and ``partial()`` are filled in by the arguments of such classes.

    :param retry_policy: default: a conflict is retried soon, an outage later. No policy retries what never helps.
    :param retry_delay: given here or in ``default_args``, it holds for every error; default: Airflow's.
    :param of_spark_submit: arguments of SparkSubmitOperator.
    """

    def __init__(
        self,
        *,
        retry_policy: RetryPolicy | None = BY_ERROR,
        retry_delay: timedelta | float = UNASKED_DELAY,
        **of_spark_submit: Any,
    ) -> None:
        super().__init__(retry_policy=retry_policy, retry_delay=retry_delay, **of_spark_submit)
        is_asked = not isinstance(self.retry_delay, UnaskedDelay) or bool(self.retry_exponential_backoff)
        if is_asked and isinstance(self.retry_policy, ErrorRetryPolicy):
            self.retry_policy = None


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


@contextmanager
def refusing_for_good() -> Iterator[None]:
    """Let an error over arguments fail its task without a retry, also as a decorator.

    A mapped task is made when it runs. A retry would make it of the same arguments.

    :raises LakeProviderError: as :func:`as_task_failure` returns it.
    """
    try:
        yield
    except LakeProviderError as error:
        raise as_task_failure(error) from None
