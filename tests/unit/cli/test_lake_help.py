"""Help of ``airflow lake``, as Airflow's own command line prints it."""

from __future__ import annotations

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_lake_provider.cli.definition import lake_commands
from tests.unit.cli.lake_command import run_lake

COMMANDS = {
    each.name: each for group in lake_commands() if isinstance(group, GroupCommand) for each in group.subcommands
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_help_of_a_command_has_every_word_that_is_written(
    command: ActionCommand, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        run_lake(command.name, "--help")
    printed = capsys.readouterr().out.split()
    written = [command.description or "", *(each.kwargs["help"] % each.kwargs for each in command.args)]
    assert [word for text in written for word in text.split() if word not in printed] == []
