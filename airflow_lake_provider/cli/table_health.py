"""``airflow lake health``: the health of a catalog's tables, worst first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.print_tables import exit_where_broken, matching, show
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_policy import PolicyReader
from airflow_lake_provider.maintenance.health import TableHealth

_WELL = "nothing to mend"


@suppress_logs_and_warning
@providers_configuration_loaded
def health(args: Namespace) -> None:
    """Print one line for each table, or all facts of each as JSON or YAML.

    :param args: ``tables``, ``conn_id``, ``fresh_within`` and ``output``.
    :raises SystemExit: with a message where the catalog cannot be read, an argument is refused or no table matches.
        With 1 where a table could not be read. The score does not matter.
    """

    def look() -> list[TableHealth]:
        return table_health(
            args.tables or "*",
            lake_conn_id=args.conn_id,
            policies=PolicyReader(LakeCatalogHook(args.conn_id)),
            fresh_within=None if args.fresh_within is None else duration(args.fresh_within, "--fresh-within"),
        )

    tables = matching(args, look)
    show(tables, args.output, _row)
    exit_where_broken(tables)


def _row(table: TableHealth, shown: Callable[[str], str]) -> dict[str, Any]:
    files, snapshots = table.files, table.snapshots
    return {
        "table": shown(table.table),
        "score": "-" if table.score is None else table.score,
        "files": "-" if files is None or files.data_files is None else files.data_files,
        "snapshots": "-" if snapshots is None else snapshots.snapshots,
        "why": shown(table.error or _findings(table)),
    }


def _findings(table: TableHealth) -> str:
    findings = " ".join(f"-{part.lost} {part.reason}" for part in table.findings)
    if table.policy_error:
        why = table.policy_error.removesuffix(".")
        return f"Its policy cannot be read, so defaults judge it: {why}. {findings}".strip()
    return findings or _WELL
