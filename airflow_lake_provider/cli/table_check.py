"""``airflow lake check``: what the operators can do with a table, and why not."""

from __future__ import annotations

import os
from argparse import Namespace

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.print_tables import show
from airflow_lake_provider.contracts.capabilities import Verdict
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook


@suppress_logs_and_warning
@providers_configuration_loaded
def check(args: Namespace) -> None:
    """Print one line for each use of each operator; with ``source``, what that batch would change.

    :param args: ``table``, ``conn_id``, ``keys`` and ``output``, and those of :func:`.check_batch`.
    :raises SystemExit: the connection or the table cannot be read; with the message.
    """
    if args.source:
        # Spark's packages take their time to be imported.
        from airflow_lake_provider.cli.batch_check import check_batch

        check_batch(args)
        return
    # Connections may be in Airflow's own database, as for Airflow's own commands.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    try:
        verdicts = LakeCatalogHook(args.conn_id).loaded(args.table).check(args.keys)
    except LakeProviderError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
    rows = [_row(each) for each in verdicts]
    show(rows, args.output, lambda row, shown: {name: shown(value) for name, value in row.items()})


def _row(verdict: Verdict) -> dict[str, str]:
    return {
        "operator": verdict.operator,
        "use": verdict.use,
        "possible": "yes" if verdict.possible else "no",
        "reason": verdict.reason,
    }
