"""``airflow lake connection``: whether the catalog of a connection answers, and what is wrong."""

from __future__ import annotations

from argparse import Namespace

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.command_process import as_command, printable
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook


@suppress_logs_and_warning
@providers_configuration_loaded
def connection(args: Namespace) -> None:
    """Open the catalog as jobs do, and print its answer.

    :param args: ``conn_id``.
    :raises SystemExit: with what is wrong, secrets hidden.
    """
    with as_command():
        has_answered, sentence = LakeCatalogHook(args.conn_id).test_connection()
    # The text of a server's error may be in it.
    if not has_answered:
        raise SystemExit(printable(sentence))
    print(printable(sentence))
