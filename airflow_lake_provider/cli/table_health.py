"""``airflow lake health``: the health of a catalog's tables, worst first."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.terminal_text import printable, unstyled
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.contracts.json_codec import to_plain
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
    # Connections may be in Airflow's own database, as for Airflow's own commands.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    try:
        fresh = duration(args.fresh_within, "--fresh-within") if args.fresh_within else None
        tables = table_health(
            args.tables or "*",
            lake_conn_id=args.conn_id,
            policies=PolicyReader(LakeCatalogHook(args.conn_id)),
            fresh_within=fresh,
        )
    except LakeProviderError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
    if not tables:
        raise SystemExit(f"No table of connection {args.conn_id!r} matches {' '.join(args.tables)}")
    show(tables, args.output, _row)
    if any(each.error for each in tables):
        raise SystemExit(1)


def show(entries: Sequence[Any], output: str, row: Callable[[Any, Callable[[str], str]], dict[str, Any]]) -> None:
    """Print a line for each entry, or all of it as JSON or YAML.

    :param entries: objects or mappings, several of a table where it has several lines.
    :param row: returns the columns of a line; its second argument takes a text to what a terminal shows of it.
    """
    console = AirflowConsole(emoji=False)
    if output == "json":
        console.print_as_json([to_plain(each) for each in entries])  # type: ignore[arg-type]  # as print_as gives it
    elif output == "yaml":
        console.print_as_yaml([to_plain(each) for each in entries])  # type: ignore[arg-type]  # likewise
    else:
        # Names and errors may have what rich takes for a style.
        as_text = unstyled if output == "table" else str
        console.print_as(
            data=list(entries), output=output, mapper=lambda each: row(each, lambda text: as_text(printable(text)))
        )


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
    return " ".join(f"-{part.lost} {part.reason}" for part in table.findings) or _WELL
