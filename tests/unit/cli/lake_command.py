"""Commands of ``airflow lake``, as Airflow's own command line runs them."""

from __future__ import annotations

from airflow.cli.cli_parser import get_parser


def run_lake(command: str, *arguments: str) -> None:
    """Run a command as ``airflow`` does."""
    given = get_parser().parse_args(["lake", command, *arguments])
    given.func(given)
