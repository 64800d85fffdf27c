"""Set up the process of a command, end it by a message, and run a driver for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_lake_provider.operators.driver_start import DriverStart
    from airflow_lake_provider.operators.spark_submission import SparkSubmission


def printable(text: str) -> str:
    """Return a text without what a terminal would obey, in the lines that it has."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)


@contextmanager
def as_command() -> Iterator[None]:
    """Read connections as Airflow's own commands do, and end by the message of an error of this package.

    :raises SystemExit: with the message.
    """
    # Connections may be in Airflow's own database.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    try:
        yield
    except LakeProviderError as error:
        # A driver, a server or a file may have chosen the text.
        raise SystemExit(printable(f"{type(error).__name__}: {error}")) from None


def run_driver(submit: SparkSubmitOperator, attempt: SparkSubmission, start: DriverStart) -> Exception | None:
    """Run the driver of an attempt; return why one has failed, which may have left a report all the same.

    :param submit: its arguments are put together here.
    :param start: of ``attempt.driver_start``.
    :raises LakeProviderError: nothing can be submitted.
    """
    # Spark's packages take their time to be imported.
    from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook
    from airflow_lake_provider.operators.driver_exit import DriverEnd
    from airflow_lake_provider.operators.spark_submission import spark_submit_arguments

    attempt.prepare(start)
    end = DriverEnd()
    for name, value in spark_submit_arguments(attempt, submit, start).items():
        setattr(submit, name, value)
    try:
        hook = LakeSparkSubmitHook.adopt(
            submit._get_hook(),
            lambda: None,
            lambda _: None,
            java_options=start.options,
            on_line=end.heed,
            environment=start.environment,
        )
        hook.submit(submit.application)
    # Whatever a deployment raises: a program that is not there, an extra that the official hook refuses.
    except Exception as error:  # noqa: BLE001
        end.error = str(error)
        if (why := end.why()) is None:
            return error
        failure = JobFailedError(why)
        failure.__cause__ = error
        return failure
    return None
