"""Commands that Airflow reads when it builds its command line; what they do is imported when they run."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

from airflow_lake_provider.contracts.reports.history_entry import OUTCOMES


def _argument(*flags: str, **options: Any) -> Arg:
    return Arg(flags, **options)  # type: ignore[no-untyped-call]  # Airflow's own


def _key_columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        # A variable of the shell that is not set: an append would be looked at in place of the upsert.
        raise ArgumentTypeError(f"must name key columns, comma-separated, got {text!r}")
    return names


_TABLES = _argument(
    "tables", nargs="*", help="Names or patterns: 'shop.*' '!shop.tmp_*' (default: all tables)", default=()
)
_LAKE_CONNECTION = _argument(
    "--conn-id",
    help="Connection of type iceberg that describes the catalog (default: lake_default)",
    default="lake_default",
)
_SPARK_CONNECTION = _argument(
    "--spark-conn-id", help="Spark connection (default: spark_default)", default="spark_default"
)
# A section in brackets would be a style to Airflow's help, and missing from it.
_POLICY_FILE = _argument(
    "--policy-file", help="YAML file, relative to the folder of DAGs (default: policy_file of the section lake)"
)
_HISTORY_TABLE = _argument(
    "--history", help="Table of the history, or off (default: maintenance_history of the section lake)"
)
_COMMANDS = (
    ActionCommand(
        name="check",
        help="Say what the operators can do with an existing table, or what a batch would change in it",
        description=(
            "Reads the table's metadata only, and changes nothing. Spark is not started. With --source it is: a driver "
            "reads the batch as a run would, and says which columns would change and which records would be put aside. "
            "It writes nothing. Exits with 1 where a run would refuse the batch."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.table_check.check"),
        args=(
            _argument("table", help="The table, namespace.table"),
            _LAKE_CONNECTION,
            _argument(
                "-k",
                "--keys",
                help="Key columns, comma-separated (default: the table's identifier fields)",
                type=_key_columns,
                default=(),
            ),
            _argument("--source", help="Path of files, or a source as JSON: a batch to look at, by Spark"),
            _argument(
                "--arguments",
                help="Other arguments of LakeUpsertOperator (with keys), else of LakeAppendOperator, as JSON: "
                '{"schema_contract": "freeze", "dead_letter": {}}',
            ),
            _SPARK_CONNECTION,
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    ),
    ActionCommand(
        name="connection",
        help="Say whether the catalog of a connection answers, or what is wrong with it",
        description=(
            "Reads the connection as tasks do, also from Airflow's own database, and counts the namespaces of its "
            "catalog. No secret is printed. Exits with 1 where it is refused or the catalog does not answer."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.connection_check.connection"),
        args=(_LAKE_CONNECTION, ARG_VERBOSE),
    ),
    ActionCommand(
        name="health",
        help="Say how healthy tables are, worst first, and what would mend them",
        description=(
            "Reads metadata only: no Spark, no data file. Exits with 1 where a table cannot be read, whatever the "
            "scores are."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.table_health.health"),
        args=(
            _TABLES,
            _LAKE_CONNECTION,
            _argument("--fresh-within", help="Age of the newest rows above which a table is stale, such as PT6H"),
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    ),
    ActionCommand(
        name="history",
        help="Say what maintenance did to tables, newest first",
        description=(
            "Reads the table of the maintenance history: no Spark, no other table. Exits with 1 where no row matches."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.maintenance_history.history"),
        args=(
            _TABLES,
            _LAKE_CONNECTION,
            _argument("--since", help="Age of the oldest row, such as P1D (default: P7D)", default="P7D"),
            _argument(
                "--outcome",
                help="Rows with this outcome alone; may be given again for another one",
                choices=OUTCOMES,
                action="append",
                default=[],
            ),
            _HISTORY_TABLE,
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    ),
    ActionCommand(
        name="plan",
        help="Say what maintenance of tables would do, the most urgent first, and why it leaves out the rest",
        description=(
            "Reads metadata only: no Spark, no data file, and nothing is changed. Exits with 1 where a table cannot be "
            "read, whatever is due."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.table_plans.plan"),
        args=(_TABLES, _LAKE_CONNECTION, _POLICY_FILE, _HISTORY_TABLE, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="policy",
        help="Say what maintenance may do with tables, and where each value comes from",
        description=(
            "Merges defaults, the file beside the DAGs, policies of the catalog, and properties of namespaces and "
            "tables. Reads metadata only, and changes nothing. Exits with 1 where a policy cannot be read."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.table_policy.policy"),
        args=(
            _TABLES,
            _LAKE_CONNECTION,
            _POLICY_FILE,
            _argument("--changed", help="Leave out values that are defaults", action="store_true"),
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    ),
    ActionCommand(
        name="policy-schema",
        help="Print the JSON schema of the file of policies, for editors",
        description="Save it beside the file, and name it in the file's first line.",
        func=lazy_load_command("airflow_lake_provider.cli.table_policy.policy_schema"),
        args=(),
    ),
    ActionCommand(
        name="warm-up",
        help="Make the archive of the classes that Spark drivers of this worker load",
        description=(
            "Run a small upsert into a table in memory, on this machine. Its driver writes the archive that later "
            "drivers start from. The catalog is not asked and not written."
        ),
        func=lazy_load_command("airflow_lake_provider.cli.warm_up.warm_up"),
        args=(
            _LAKE_CONNECTION,
            _SPARK_CONNECTION,
        ),
    ),
)


def lake_commands() -> list[CLICommand]:
    """Return the group ``airflow lake``; the provider info names this function."""
    return [GroupCommand(name="lake", help="Look after lake tables", subcommands=_COMMANDS)]
