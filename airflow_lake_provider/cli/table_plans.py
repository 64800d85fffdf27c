"""``airflow lake plan``: what maintenance of a catalog's tables would do, the most urgent first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_lake_provider.cli.print_tables import exit_where_broken, matching, show
from airflow_lake_provider.hooks.table_plans import table_plans
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan

# Of the actions that are left out, those that a table most often needs.
_OFTEN = ("compaction", "snapshot-expiry")


@suppress_logs_and_warning
@providers_configuration_loaded
def plan(args: Namespace) -> None:
    """Print one line for each table, or all of each plan as JSON or YAML.

    :param args: ``tables``, ``conn_id``, ``policy_file``, ``history`` and ``output``.
    :raises SystemExit: with a message where the catalog cannot be read, an argument is refused or no table matches.
        With 1 where a table could not be read.
    """

    def look() -> list[TablePlan]:
        return table_plans(
            args.tables or "*", lake_conn_id=args.conn_id, policy_file=args.policy_file, history=args.history
        )

    plans = matching(args, look)
    show(plans, args.output, _row)
    exit_where_broken(plans)


def _row(plan: TablePlan, shown: Callable[[str], str]) -> dict[str, Any]:
    return {
        "table": shown(plan.table),
        "score": "-" if plan.score is None else plan.score,
        "actions": ", ".join([*map(_named, plan.actions), *_waiting(plan)]) or "-",
        "core-seconds": f"{plan.core_seconds:,.1f}" if plan.actions else "-",
        "why": shown(_why(plan)),
    }


def _named(action: PlannedAction) -> str:
    return f"{action.action} ({action.level})" if action.level else action.action


def _waiting(plan: TablePlan) -> list[str]:
    return [f"{each.action} (waits)" for each in plan.not_planned if each.is_waiting]


def _why(plan: TablePlan) -> str:
    sentences = [text for each in plan.actions for text in (*(one.sentence for one in each.reasons), *each.notes)]
    # One reason may leave out all actions.
    sentences += [
        f"{each.why} {each.instead}"
        for each in plan.not_planned
        if each.is_waiting or each.is_unsupported or (not plan.actions and each.action in _OFTEN)
    ]
    return " ".join(dict.fromkeys(sentences))
