"""``airflow lake policy``: what maintenance may do with tables, and where each value comes from."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.print_tables import exit_where_broken, matching, show
from airflow_lake_provider.contracts.policy_settings import schema_of_policy_file
from airflow_lake_provider.hooks.table_policy import table_policies
from airflow_lake_provider.maintenance.policy import Layer, TablePolicy


@suppress_logs_and_warning
@providers_configuration_loaded
def policy(args: Namespace) -> None:
    """Print one line for each value, or each table's policy as JSON or YAML.

    :param args: ``tables``, ``conn_id``, ``policy_file``, ``changed`` and ``output``.
    :raises SystemExit: with a message where the catalog or the file cannot be read, or no table matches. With 1 where
        the policy of a table could not be read.
    """

    def look() -> list[TablePolicy]:
        return table_policies(args.tables or "*", lake_conn_id=args.conn_id, policy_file=args.policy_file)

    tables = matching(args, look)
    if args.output in ("json", "yaml"):
        entries = [_entry(each, args.changed) for each in tables]
    else:
        entries = [row for each in tables for row in _rows(each, args.changed)]
    show(entries, args.output, lambda row, shown: {name: shown(text) for name, text in row.items()})
    exit_where_broken(tables)


def policy_schema(_: Namespace) -> None:
    """Print the JSON schema of the file of policies."""
    print(json.dumps(schema_of_policy_file(), indent=2))


def _entry(table: TablePolicy, only_changed: bool) -> dict[str, Any]:
    """Return values, what is ignored, and the error; the policy itself is what the values say."""
    values = [each for each in table.values if not only_changed or each.layer is not Layer.DEFAULTS]
    return {"table": table.table, "values": values, "ignored": table.ignored, "error": table.error}


def _rows(table: TablePolicy, only_changed: bool) -> Iterator[dict[str, str]]:
    if table.error:
        yield {"table": table.table, "setting": "-", "value": "-", "layer": "-", "origin": table.error}
    for each in table.values:
        if not only_changed or each.layer is not Layer.DEFAULTS:
            value = each.value if isinstance(each.value, str) else json.dumps(each.value)
            yield _row(table, each.key, value, each.layer, each.origin)
    for ignored in table.ignored:
        origin = f"{ignored.origin}: {ignored.reason}"
        yield _row(table, ignored.key, f"ignored: {ignored.value}", ignored.layer, origin)


def _row(table: TablePolicy, key: str, value: str, layer: Layer, origin: str) -> dict[str, str]:
    return {"table": table.table, "setting": key, "value": value, "layer": layer.value, "origin": origin}
