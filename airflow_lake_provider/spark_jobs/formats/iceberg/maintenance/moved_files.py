"""Counts of files that were moved, and why others were not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from airflow_lake_provider.contracts.errors import JobFailedError, LakeProviderError, UnsupportedError

_NAMED, _MOST_CAUSES = 3, 20
NOT_OWN = "the journal names what is not the table's own"
OCCUPIED = "another file has come to its place since"


@dataclass
class MovedFiles:
    """Files that were moved, and why others were not.

    :param moved: files that are at their new place alone.
    :param failures: files that stay where they were, by why.
    :param left_in: quarantines in which a restore leaves files.
    """

    moved: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    left_in: list[str] = field(default_factory=list)

    def note(self, why: str | None, files: int = 1) -> None:
        """Count moves.

        :param why: they failed; None where they did not.
        """
        if why is None:
            self.moved += files
            return
        # A message may name its file, so each of a million may be another one.
        is_one_more = why not in self.failures and len(self.failures) >= _MOST_CAUSES
        self.failures["another cause" if is_one_more else why] += files

    def add(self, batch: MovedFiles) -> None:
        """Count those of a batch."""
        self.note(None, batch.moved)
        for why, files in batch.failures.items():
            self.note(why, files)

    @property
    def causes(self) -> str:
        """The reasons of the failures, the most frequent first."""
        listed = [f"{why} ({count:,})" for why, count in self.failures.most_common(_NAMED)]
        return "; ".join([*listed, *(["..."] if len(self.failures) > _NAMED else [])])

    def error(self, message: str) -> LakeProviderError:
        """Return the error of a run that could move none; a retry helps where storage failed.

        :param message: what was not done.
        """
        kind = UnsupportedError if self.failures.keys() <= {NOT_OWN, OCCUPIED} else JobFailedError
        return kind(f"{message}: {self.causes}")
