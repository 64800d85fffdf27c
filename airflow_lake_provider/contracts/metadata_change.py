"""Change of a table's metadata that writes no file of rows: refs, properties, format version.

A worker decides on it. Worker or driver commit it, only while the refs are where they were when it was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_lake_provider.contracts.errors import CommitConflictError


@dataclass(frozen=True, kw_only=True)
class RefMove:
    """A branch or tag, and the snapshot that it will be at.

    :param kind: ``branch`` or ``tag``.
    :param snapshot: id as text.
    :param max_age_ms: age at which an expiry removes a new ref; None keeps it. A ref that exists keeps its own.
    """

    name: str
    kind: str
    snapshot: str
    max_age_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class MetadataChange:
    """One atomic change.

    :param table_uuid: identity of the table that it was decided on.
    :param expected_refs: snapshot ids by ref, as text; None for a ref that must not exist.
    :param format_version: to upgrade to; None leaves it.
    """

    table_uuid: str
    expected_refs: dict[str, str | None] = field(default_factory=dict)
    moved_refs: tuple[RefMove, ...] = ()
    removed_refs: tuple[str, ...] = ()
    set_properties: dict[str, str] = field(default_factory=dict)
    removed_properties: tuple[str, ...] = ()
    format_version: int | None = None

    def refuse_other_state(self, table: str, table_uuid: str, refs: dict[str, str]) -> None:
        """Refuse to commit on another state than the one that was decided on.

        :param refs: snapshot ids by ref, as they are now.
        :raises CommitConflictError: naming the ref that moved.
        """
        if table_uuid != self.table_uuid:
            raise CommitConflictError(f"{table}: the table was dropped and made again meanwhile; nothing changed")
        for name, expected in self.expected_refs.items():
            if refs.get(name) != expected:
                raise CommitConflictError(
                    f"{table}: commit refused, {name} was at snapshot {expected} and is at {refs.get(name)} now. "
                    "Nothing changed; a retry decides again."
                )

    def is_made(self, refs: dict[str, str], properties: dict[str, str], format_version: int) -> bool:
        """Tell whether a table is as this change leaves it."""
        return (
            all(refs.get(move.name) == move.snapshot for move in self.moved_refs)
            and not refs.keys() & set(self.removed_refs)
            and self.set_properties.items() <= properties.items()
            and not properties.keys() & set(self.removed_properties)
            and format_version >= (self.format_version or 0)
        )
