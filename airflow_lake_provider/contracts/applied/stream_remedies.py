"""Remedies for change events that cannot be applied, in the words of where they are: in files, or in a topic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StreamRemedies:
    """Parts of sentences for errors over change events; by default those of files.

    :param start_anew: how to go on with a new snapshot of the source.
    :param of_earlier_log: about events of an earlier log; ``of_new_log``: how to apply those of a new one without it.
    :param of_open_transaction: how to apply changes that were open while a snapshot was read.
    :param all_again: how all events are applied again. ``came_late``: why some were passed over.
    :param may_come: where an event may be that has not come.
    """

    start_anew: str = (
        "Take a new snapshot of the source table, and give the source a new name and the new files only, "
        "by another path or folder"
    )
    of_earlier_log: str = "Take their files out of the source's path: they would take rows back"
    of_new_log: str = "; or apply the new files only with on_repeat='apply'"
    of_open_transaction: str = (
        "; or apply the files of the snapshot first, and the files with these changes alone, with on_repeat='apply'"
    )
    all_again: str = "Where every file is there, apply them all again with on_repeat='apply'"
    came_late: str = ": the file came late"
    may_come: str = "in a file that has not come yet. Nothing was applied; run again when it is there"


OF_FILES = StreamRemedies()
OF_TOPIC = StreamRemedies(
    start_anew=(
        "Take a new snapshot of the source table, and give the source a new name, and as starting a moment between the "
        "last event of before and that snapshot"
    ),
    of_earlier_log="They would take rows back",
    of_new_log="",
    of_open_transaction=" and read the topic from its beginning into a new table",
    all_again="Where the topic still has every event, apply them all again with on_repeat='apply'",
    came_late="",
    may_come=(
        "behind what was read of another partition, or has not come yet. Nothing was applied; run again without "
        "max_records and catch_up, or when it is there"
    ),
)
