"""Choose level and files of a compaction by rules that worker and driver share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy, Verification
from airflow_lake_provider.contracts.errors import BrokenMetadataError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.property_values import count_of, number_property, whole_number
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import TableFacts, TableState
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.manifest_rules import specs_due

TARGET_SIZE = "write.target-file-size-bytes"
DELETE_TARGET_SIZE = "write.delete.target-file-size-bytes"
DEFAULT_TARGET_BYTES = 512 * 1024**2
DELETE_TARGET_BYTES = 64 * 1024**2
# A property of the table that asks for less, or for more, is not followed: whoever may alter it would make millions of
# files, or one that nobody can rewrite. The code of a DAG is trusted.
LEAST_TARGET_BYTES, MOST_TARGET_BYTES = 1024**2, 1024**4
# With fewer files the planner's lists are short, and the rewrite applies the deletes as quickly.
MANY_EQUALITY_DELETES = 100
OFF = 2**31 - 1
EQUALITY_DELETES, POSITION_DELETES = "total-equality-deletes", "total-position-deletes"
_LARGEST_GROUP_BYTES = 100 * 1024**3
# A group is what one conflict can undo, so binpack groups are small; sorting wants its rows together.
_TARGETS_PER_GROUP = 16


@dataclass(frozen=True, kw_only=True)
class RewriteRules:
    """Rules that choose the files of a partition to rewrite together, as Iceberg's planner understands them.

    :param target_bytes: size of a new file; below 75 % a file is small, above 180 % it is split.
    :param delete_file_threshold: delete files that make a file due; ``OFF`` never.
    :param delete_ratio_threshold: share of deleted rows that makes a file due.
    :param rewrite_all: every file is due.
    :param group_bytes: most bytes of one group.
    """

    target_bytes: int
    min_input_files: int
    delete_file_threshold: int = OFF
    delete_ratio_threshold: float = 1.0
    rewrite_all: bool = False
    group_bytes: int = _LARGEST_GROUP_BYTES

    @property
    def min_bytes(self) -> int:
        """Smallest size that is not small."""
        return int(self.target_bytes * 0.75)

    @property
    def max_bytes(self) -> int:
        """Largest size that is not split."""
        return int(self.target_bytes * 1.8)


def rules_for(spec: CompactionSpec, level: CompactionLevel, table_target_bytes: int | None) -> RewriteRules:
    """Return the rules of a level.

    ``minor`` takes wrongly sized files and files past the delete ratio, ``major`` also every file with as many delete
    files as the threshold says (one, unless the author asks for more), ``full`` everything.

    :param level: a level other than ``auto``, see :func:`choose_level`.
    :param table_target_bytes: the table's ``write.target-file-size-bytes``.
    """
    target = spec.target_file_size or followed_size(table_target_bytes) or DEFAULT_TARGET_BYTES
    in_small_groups = spec.partial_progress and spec.strategy is CompactionStrategy.BINPACK
    return RewriteRules(
        target_bytes=target,
        min_input_files=spec.min_input_files,
        delete_file_threshold=(spec.delete_file_threshold or OFF) if level is CompactionLevel.MAJOR else OFF,
        delete_ratio_threshold=spec.delete_ratio_threshold,
        rewrite_all=level is CompactionLevel.FULL,
        group_bytes=min(_LARGEST_GROUP_BYTES, _TARGETS_PER_GROUP * target) if in_small_groups else _LARGEST_GROUP_BYTES,
    )


def is_of_part(spec: CompactionSpec) -> bool:
    """Tell whether a compaction leaves a part of the table alone, whose deletes stay as well."""
    return spec.where is not None or bool(spec.skip_partitions)


def endangered_part(name: str) -> str:
    """Return why no part of a table is rewritten whose deletes lie in partitions by a column that was dropped.

    :param name: of the partition field.
    """
    return (
        f"deletes lie in partitions by {name!r}, whose column was dropped. Iceberg would lose the value of the "
        "partition, and deleted rows would come back. Rewrite the table by LakeCompactionOperator without where, which "
        "does it in one commit"
    )


def in_one_commit(spec: CompactionSpec, name: str) -> tuple[CompactionSpec, CompactionLevel, str]:
    """Return a compaction as it has to be where a manifest with some files left in it would lose their deletes.

    :param name: of the partition field.
    :return: with the level, and why, as :func:`choose_level`.
    """
    level = CompactionLevel.FULL
    why = f"all files in one commit, as deletes lie in partitions by the dropped column of {name!r}"
    return replace(spec, level=level, partial_progress=False), level, why


def refuse_endangered_part(spec: CompactionSpec, name: str | None) -> None:
    """Refuse to rewrite files of a part of a table where deletes would be lost by it.

    :param name: of the partition field; None where no delete is in danger.
    :raises UnsupportedError: naming the field, and what to do.
    """
    if name is not None and is_of_part(spec):
        raise UnsupportedError(f"{spec.table}: {endangered_part(name)}")


def resolves_equality_deletes(spec: CompactionSpec, level: CompactionLevel) -> bool:
    """Tell whether many equality deletes become positions first: in rewrites of the whole table for its deletes."""
    return level is not CompactionLevel.MINOR and not is_of_part(spec)


def table_size(table: str, properties: Mapping[str, str], name: str) -> int | None:
    """Return the size in bytes that the owner of a table has set; None where there is none.

    :param table: name, for the message.
    :param name: of the property, such as ``TARGET_SIZE``.
    :raises BrokenMetadataError: it is no number above 0.
    """
    value = number_property(table, properties, name)
    if value == 0:
        raise BrokenMetadataError(f"{table}: property {name!r} is 0, expected a number of bytes above 0")
    return value


def followed_size(given: int | None) -> int | None:
    """Return the size that a property of a table asks for; None where a compaction does not follow it.

    :param given: of :func:`table_size`.
    """
    return given if given is not None and LEAST_TARGET_BYTES <= given <= MOST_TARGET_BYTES else None


def target_size_owner(spec: CompactionSpec, table_target_bytes: int | None) -> str:
    """Say by whom the size of new files was set, as the end of a sentence; empty where nobody has."""
    if spec.target_file_size is not None:
        other = f" and not {table_target_bytes:,}, the table's {TARGET_SIZE}" if table_target_bytes is not None else ""
        return f"; target_file_size is the DAG's{other}"
    if table_target_bytes is not None and followed_size(table_target_bytes) is None:
        return (
            f"; target_file_size is {DEFAULT_TARGET_BYTES:,}, since the table's {TARGET_SIZE}, {table_target_bytes:,}, "
            f"is not followed: it is not between {LEAST_TARGET_BYTES:,} and {MOST_TARGET_BYTES:,}"
        )
    return f"; target_file_size is {table_target_bytes:,}, the table's {TARGET_SIZE}" if table_target_bytes else ""


def counted_deletes(summary: Mapping[str, str], name: str, listed: int | None) -> int | None:
    """Return a total of deletes by a snapshot's summary; None where that does not say, or leaves out some of them.

    Iceberg begins to count at zero for the first snapshot of a branch that a commit makes. Main may move on to it.

    :param name: ``EQUALITY_DELETES`` or ``POSITION_DELETES``.
    :param listed: delete files by the snapshot's manifest list; None where that does not say.
    """
    files = whole_number(summary.get("total-delete-files"))
    if listed == 0 or (listed is None and files == 0):
        return 0
    return whole_number(summary.get(name)) if listed in (None, files) else None


def choose_level(spec: CompactionSpec, state: TableState, equality_deletes: int | None) -> tuple[CompactionLevel, str]:
    """Return the level to carry out and, as the end of a sentence, why.

    ``auto`` becomes ``major`` when the head's summary shows a debt of deletes, or does not count them. Otherwise it is
    ``minor``, and never ``full``.

    :param state: the table's head.
    :param equality_deletes: rows of equality delete files, see :func:`counted_deletes`.
    """
    if spec.level is not CompactionLevel.AUTO:
        return spec.level, "as asked"
    if equality_deletes is None:
        return CompactionLevel.MAJOR, "the summary of the head does not say how many rows are deleted"
    share = state.deleted_rows / max(1, state.rows + state.deleted_rows)
    if equality_deletes:
        return CompactionLevel.MAJOR, f"{equality_deletes:,} equality deletes are compared with every row read"
    if share >= spec.delete_ratio_threshold:
        return CompactionLevel.MAJOR, f"{share:.0%} of the rows are deleted, the threshold is {_percent(spec)}"
    if state.delete_files and state.delete_files >= state.data_files:
        return CompactionLevel.MAJOR, f"{state.delete_files:,} delete files lie on {state.data_files:,} data files"
    return CompactionLevel.MINOR, f"{share:.0%} of the rows are deleted, below the threshold of {_percent(spec)}"


def surely_nothing_due(rules: RewriteRules, state: TableState) -> bool:
    """Tell whether the head's summary alone proves that no file is due, so that no manifest needs to be read."""
    if state.data_files == 0:
        return True
    if rules.rewrite_all or state.delete_files:
        return False
    too_few = state.data_files == 1 or state.data_files < rules.min_input_files
    return too_few and state.data_bytes <= rules.target_bytes


def _percent(spec: CompactionSpec) -> str:
    return f"{spec.delete_ratio_threshold:.0%}"


UNTIDIED = "an earlier compaction was cut off before the metadata was tidied"
_OF_FILES = ("deleted-data-files", "added-delete-files", "removed-delete-files")


def is_untidied(
    facts: TableFacts,
    spec: CompactionSpec,
    run_key: str,
    manifest_sizes: Callable[[str], Mapping[int, Iterable[Collection[int]]]],
) -> bool:
    """Tell whether the newest compaction of main has not gone on to what it does last.

    :param run_key: of this run, whose own earlier try may have had a ``where``.
    :param manifest_sizes: reads the manifests of a snapshot, see :func:`.specs_due`.
    """
    newest = next((each for each in facts.ancestors() if each.summary.get(ACTION) == spec.action), None)
    if newest is None or not any(count_of(newest.summary, name) for name in _OF_FILES):
        # It has merged manifests, which is done last.
        return False
    # Version 2 cannot tell which position deletes lie on files that are gone, so these are always written anew.
    is_rewrite = not is_of_part(spec) and count_of(newest.summary, "deleted-data-files") > 0
    is_own = newest.summary.get(RUN_KEY) == run_key
    is_left = facts.format_version == 2 and count_of(newest.summary, "total-position-deletes") > 0
    if is_left and (is_rewrite or is_own):
        return True
    return spec.rewrite_manifests and bool(specs_due(facts, manifest_sizes(newest.id)))


def refuse_verification_without_keys(spec: CompactionSpec, facts: TableFacts) -> None:
    """Refuse to compare keys of a table that says of no column that it identifies a row.

    :raises InvalidSpecError: it has no identifier fields.
    """
    if spec.verify is Verification.KEYS and not facts.shape.identifiers:
        raise InvalidSpecError(
            f"{spec.table}: verify='keys' needs identifier fields, and the table has none; set them, of columns that "
            "are NOT NULL, with ALTER TABLE ... SET IDENTIFIER FIELDS, or use verify='rows'"
        )
