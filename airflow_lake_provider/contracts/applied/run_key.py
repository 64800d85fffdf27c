"""The identity of one application of one batch, and the list of them that a table remembers.

A run key has 16 hexadecimal digits. Eight are from who runs (dag, run, task, map index, or the author's ``batch_id``),
eight from what is applied (spec and input list). The first half lets a worker that lost the driver's report find its
own commit; the second half makes a corrected input a new key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_lake_provider.contracts.errors import ForgottenRunError, InvalidSpecError
from airflow_lake_provider.contracts.property_values import LAST_SECOND, whole_number
from airflow_lake_provider.contracts.table_properties import (
    MAX_VALUE_CHARACTERS,
    RECENT_RUN_KEYS,
    RUN_KEYS_DROPPED_BEFORE,
)

MAX_RECENT_RUN_KEYS = 100
# Of a run key, that say who runs; the others say what is applied.
WHO_DIGITS = 8
_ENTRY = re.compile(r"([0-9a-f]{16})@([0-9]+)")
# Ways out of a refused retry; the second where each clearing of a task is a run of its own.
NEW_RUN = "start a new DAG run"
CLEAR_OR_NEW_RUN = f"clear the task again, or {NEW_RUN}"


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """Identity of who applies a batch.

    :param who: digest of dag, run, task and map index, or of the author's batch id; 8 hexadecimal digits.
    :param label: the same in words, for messages.
    :param try_number: 1 for a first attempt.
    :param run_after: moment before which no try has committed: ``run_after`` of the DAG run, or its later start. None
        for an author's batch id, which has no time.
    """

    who: str
    label: str
    try_number: int = 1
    run_after: datetime | None = None

    @classmethod
    def of(cls, *parts: str, try_number: int = 1, run_after: datetime | None = None) -> RunIdentity:
        """Digest ``parts``, in order.

        :raises InvalidSpecError: without any part.
        """
        if not any(parts):
            raise InvalidSpecError("a run identity needs a dag, run, task and map index, or a batch id")
        who = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:WHO_DIGITS]
        return cls(who=who, label=" ".join(parts), try_number=try_number, run_after=run_after)

    def run_key(self, spec_digest_text: str, input_identities: tuple[str, ...]) -> str:
        """Return the run key of this identity applying this spec to these inputs.

        :param spec_digest_text: canonical JSON of what the author asked for, without what differs between attempts.
        :param input_identities: one text per input, see ``source_position``; their order does not matter.
        """
        what = hashlib.sha256("\x1f".join((spec_digest_text, *sorted(input_identities))).encode()).hexdigest()[:8]
        return self.who + what


@dataclass(frozen=True)
class RecentRunKeys:
    """The run keys in a table's properties, newest first.

    :param entries: (run key, commit time in epoch seconds).
    :param dropped_before: commit time of the newest entry ever dropped, in epoch seconds; None when none was.
    """

    entries: tuple[tuple[str, int], ...] = ()
    dropped_before: int | None = None

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> RecentRunKeys:
        """Read the two properties; a table without them remembers nothing."""
        pairs = _ENTRY.findall(properties.get(RECENT_RUN_KEYS, ""))
        dropped = properties.get(RUN_KEYS_DROPPED_BEFORE)
        entries = ((key, whole_number(at)) for key, at in pairs)
        # What is no number may be any time: then no old retry is taken for a new run.
        until = whole_number(dropped) if dropped else None
        return cls(
            tuple((key, at) for key, at in entries if at is not None),
            LAST_SECOND if dropped and (until is None or until > LAST_SECOND) else until,
        )

    def __contains__(self, run_key: str) -> bool:
        return any(key == run_key for key, _ in self.entries)

    def of_identity(self, who: str) -> str | None:
        """Return the newest run key of ``who``, whatever it applied."""
        return next((key for key, _ in self.entries if key.startswith(who)), None)

    def add(self, run_key: str, at: datetime) -> RecentRunKeys:
        """Put a key in front and drop the oldest beyond 100 entries or 3,500 characters."""
        entries = ((run_key, int(at.timestamp())), *(e for e in self.entries if e[0] != run_key))
        kept = entries[:MAX_RECENT_RUN_KEYS]
        while len(_text(kept)) > MAX_VALUE_CHARACTERS:
            kept = kept[:-1]
        lost = [when for _, when in entries[len(kept) :]]
        dropped = [self.dropped_before] if self.dropped_before is not None else []
        return RecentRunKeys(kept, max([*lost, *dropped], default=None))

    def to_properties(self) -> dict[str, str]:
        """Return the properties to set."""
        properties = {RECENT_RUN_KEYS: _text(self.entries)}
        if self.dropped_before is not None:
            properties[RUN_KEYS_DROPPED_BEFORE] = str(self.dropped_before)
        return properties

    def refuse_forgotten(self, run: RunIdentity, table: str, way_out: str = NEW_RUN) -> None:
        """Refuse a retry so old that its first attempt may have been dropped from the list.

        :param way_out: how to do it all the same, once the rows were checked.
        :raises ForgottenRunError: try number above 1 and the DAG run not younger than the newest dropped entry.
        """
        if run.try_number <= 1 or run.run_after is None or self.dropped_before is None:
            return
        # Commit times are kept in whole seconds, so a run of that same second counts as older.
        if int(run.run_after.timestamp()) <= self.dropped_before:
            dropped = datetime.fromtimestamp(self.dropped_before, UTC).isoformat()
            raise ForgottenRunError(
                f"{table}: {run.label} is attempt {run.try_number} of a run of {run.run_after.isoformat()}, but the "
                f"table has forgotten runs committed until {dropped}, so it cannot be told whether it was applied. "
                f"Check the rows, then {way_out}."
            )


def _text(entries: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{key}@{at}" for key, at in entries)
