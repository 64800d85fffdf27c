"""``airflow lake history``: what maintenance did to a catalog's tables, newest first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.print_tables import matching, show
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.setting_kinds import LONGEST_SPAN
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory

_COUNTS = (("data_files", "files"), ("delete_files", "delete files"), ("snapshots", "snapshots"))


@suppress_logs_and_warning
@providers_configuration_loaded
def history(args: Namespace) -> None:
    """Print one line for each action of each run, or all columns of each as JSON or YAML.

    :param args: ``tables``, ``conn_id``, ``since``, ``outcome``, ``history`` and ``output``.
    :raises SystemExit: with a message where the history is switched off, cannot be read or has no such row, or an
        argument is refused.
    """

    def look() -> list[dict[str, Any]]:
        since = datetime.now(UTC) - min(duration(args.since, "--since"), LONGEST_SPAN)
        past = MaintenanceHistory(LakeCatalogHook(args.conn_id), args.history)
        if past.table is None:
            raise InvalidSpecError("the maintenance history is switched off by [lake] maintenance_history")
        return past.entries(args.tables or "*", since, args.outcome)

    show(matching(args, look, "row of the maintenance history"), args.output, _row)


def _row(entry: dict[str, Any], shown: Callable[[str], str]) -> dict[str, Any]:
    level = f" ({entry['level']})" if entry["level"] else ""
    return {
        "ended": f"{entry['ended_at']:%Y-%m-%d %H:%M}",
        "table": shown(entry["table_name"]),
        "action": shown(f"{entry['action']}{level}"),
        "outcome": shown(entry["outcome"]),
        "seconds": "-" if entry["seconds"] is None else f"{entry['seconds']:,.0f}",
        "changed": ", ".join(_changed(entry)) or "-",
        "why": shown(": ".join(filter(None, (entry["error"], entry["cause"])))),
    }


def _changed(entry: dict[str, Any]) -> list[str]:
    states = [(entry[f"{name}_before"], entry[f"{name}_after"], words) for name, words in _COUNTS]
    return [
        f"{before:,} to {after:,} {words}"
        for before, after, words in states
        if before is not None and after is not None and before != after
    ]
