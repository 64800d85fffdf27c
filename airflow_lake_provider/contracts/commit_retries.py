"""Send a commit again that another one came before, as often as the table's ``commit.retry.*`` says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from airflow_lake_provider.contracts.property_values import number_property

RETRIES = "commit.retry.num-retries"
SHORTEST_WAIT = "commit.retry.min-wait-ms"
LONGEST_WAIT = "commit.retry.max-wait-ms"
LONGEST = "commit.retry.total-timeout-ms"
# As Iceberg takes them, where the table does not say (TableProperties of 1.12).
_LONGEST_WAIT_MS, _LONGEST_MS = 60_000, 1_800_000
_NOTICED = 1.0


@dataclass(frozen=True, kw_only=True)
class CommitRetries:
    """Tries of one commit.

    :param tries: the first one included.
    :param shortest_wait: seconds before the second try; twice as long before each further one.
    :param longest_wait: seconds.
    :param longest: seconds after which no further try begins.
    """

    tries: int
    shortest_wait: float = 0.0
    longest_wait: float = _LONGEST_WAIT_MS / 1000
    longest: float = _LONGEST_MS / 1000

    @classmethod
    def of(cls, table: str, properties: Mapping[str, str], tries: int) -> CommitRetries:
        """Read what the owner of a table has set.

        :param table: named in the error.
        :param tries: where the owner has set none.
        :raises BrokenMetadataError: a setting is no number.
        """
        retries = number_property(table, properties, RETRIES)
        return cls(
            tries=tries if retries is None else retries + 1,
            shortest_wait=(number_property(table, properties, SHORTEST_WAIT) or 0) / 1000,
            longest_wait=(number_property(table, properties, LONGEST_WAIT, _LONGEST_WAIT_MS) or 0) / 1000,
            longest=(number_property(table, properties, LONGEST, _LONGEST_MS) or 0) / 1000,
        )

    def attempts(self, say: Callable[[str], None]) -> Iterator[int]:
        """Yield 1, 2, ... and wait in between.

        :param say: told of a wait that a person would notice, before it.
        """
        until, wait = time.monotonic() + self.longest, self.shortest_wait
        for number in range(1, self.tries + 1):
            if number > 1:
                seconds = min(wait, self.longest_wait)
                if time.monotonic() + seconds > until:
                    return
                if seconds >= _NOTICED:
                    say(f"another commit came first: waiting {seconds:.1f} s before try {number} of {self.tries}")
                time.sleep(seconds)
                wait *= 2
            yield number
