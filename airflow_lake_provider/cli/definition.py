"""The group ``airflow lake`` and its commands; each is imported when it is called."""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command

_LAKE_CONNECTION = Arg(("--conn-id",), default="lake_default", help="Connection of the catalog.")  # type: ignore[no-untyped-call]
_SPARK_CONNECTION = Arg(("--spark-conn-id",), default="spark_default", help="Spark connection.")  # type: ignore[no-untyped-call]

WARM_UP = ActionCommand(
    name="warm-up",
    help="Make the archive of the classes that Spark drivers of this worker load",
    description=(
        "Run a small upsert into a table of its own in a temporary folder, on this machine. Its driver writes the "
        "archive that later drivers start from. The catalog is not asked and not written."
    ),
    func=lazy_load_command("airflow_lake_provider.cli.warm_up.warm_up"),
    args=(_LAKE_CONNECTION, _SPARK_CONNECTION),
)
COMMANDS = [WARM_UP]


def get_lake_commands() -> list[CLICommand]:
    """Return the commands for Airflow's command line; the provider info names this function."""
    return [GroupCommand(name="lake", help="Manage lake tables", subcommands=COMMANDS)]
