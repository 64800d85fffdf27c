"""``airflow lake check``: what the operators can do with a table, and why not."""

from __future__ import annotations

from argparse import Namespace

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.command_process import as_command
from airflow_lake_provider.cli.print_tables import show
from airflow_lake_provider.contracts.capabilities import Verdict
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook


@suppress_logs_and_warning
@providers_configuration_loaded
def check(args: Namespace) -> None:
    """Print one line for each use of each operator; with ``source``, what that batch would change.

    :param args: ``table``, ``conn_id``, ``keys`` and ``output``, and those of :func:`.check_batch`.
    :raises SystemExit: the connection or the table cannot be read; with the message.
    """
    # An empty one is a variable of the shell that is not set: the table alone would pass in place of its batch.
    if args.source is not None or args.arguments is not None:
        # Spark's packages take their time to be imported.
        from airflow_lake_provider.cli.batch_check import check_batch

        check_batch(args)
        return
    with as_command():
        verdicts = LakeCatalogHook(args.conn_id).loaded(args.table).check(args.keys)
    rows = [_row(each) for each in verdicts]
    show(rows, args.output, lambda row, shown: {name: shown(value) for name, value in row.items()})


def _row(verdict: Verdict) -> dict[str, str]:
    return {
        "operator": verdict.operator,
        "use": verdict.use,
        "possible": "yes" if verdict.possible else "no",
        "reason": verdict.reason,
    }
