from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.iceberg.compaction_rules import OFF, RewriteRules
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, plan_groups

RULES = RewriteRules(target_bytes=100, min_input_files=3, delete_file_threshold=1, delete_ratio_threshold=0.5)


def file(
    name: str, size: int, *, partition: str | None = "a", deletes: int = 0, deleted: int = 0, spec: int = 0
) -> FileRecord:
    return FileRecord(
        path=name,
        spec_id=spec,
        partition=(partition,),
        bytes=size,
        records=10,
        delete_files=frozenset(f"{name}-d{i}" for i in range(deletes)),
        deleted_records=deleted,
    )


def names(groups: list[list[FileRecord]]) -> list[list[str]]:
    return [[f.path for f in group] for group in groups]


def test_small_files_are_merged_once_there_are_enough_of_them() -> None:
    small = [file(f"f{i}", 10) for i in range(3)]

    assert names(plan_groups(small, RULES, 0)) == [["f0", "f1", "f2"]]
    assert plan_groups(small[:2], RULES, 0) == []


def test_two_small_files_are_merged_when_they_fill_a_file() -> None:
    assert names(plan_groups([file("f0", 60), file("f1", 60)], RULES, 0)) == [["f0", "f1"]]


def test_small_files_of_different_partitions_are_not_merged() -> None:
    files = [file(f"f{i}", 10, partition=str(i)) for i in range(5)]

    assert plan_groups(files, RULES, 0) == []


def test_files_of_an_older_partition_spec_are_planned_together() -> None:
    files = [file(f"f{i}", 10, partition=str(i), spec=1) for i in range(5)]

    assert names(plan_groups(files, RULES, 2)) == [["f0", "f1", "f2", "f3", "f4"]]


def test_files_of_an_older_partition_spec_are_planned_with_those_of_the_partition_without_values() -> None:
    without_value = [file(f"f{i}", 10, partition=None, spec=2) for i in range(2)]
    older = file("older", 10, partition="a", spec=1)

    assert names(plan_groups([*without_value, older], RULES, 2)) == [["f0", "f1", "older"]]


def test_a_file_past_one_hundred_and_eighty_percent_is_split() -> None:
    assert names(plan_groups([file("big", 181), file("good", 180)], RULES, 0)) == [["big"]]


def test_a_file_of_the_right_size_is_left_alone_from_seventy_five_percent_on() -> None:
    assert plan_groups([file(f"f{i}", 75) for i in range(9)], RULES, 0) == []


def test_one_delete_file_makes_a_file_due_unless_the_threshold_is_off() -> None:
    deleted = file("f", 100, deletes=1, deleted=1)

    assert names(plan_groups([deleted], RULES, 0)) == [["f"]]
    off = RewriteRules(target_bytes=100, min_input_files=3, delete_file_threshold=OFF, delete_ratio_threshold=0.5)
    assert plan_groups([deleted], off, 0) == []


def test_a_file_is_due_from_the_delete_ratio_on() -> None:
    rules = RewriteRules(target_bytes=100, min_input_files=3, delete_file_threshold=OFF, delete_ratio_threshold=0.5)
    files = [file("half", 100, deletes=1, deleted=5), file("less", 100, deletes=1, deleted=4)]

    assert names(plan_groups(files, rules, 0)) == [["half"]]


def test_groups_stay_below_their_largest_size() -> None:
    rules = RewriteRules(target_bytes=100, min_input_files=2, group_bytes=150)

    assert names(plan_groups([file(f"f{i}", 70) for i in range(5)], rules, 0)) == [["f0", "f1"], ["f2", "f3"]]


RECORDS = st.lists(
    st.builds(
        lambda size, partition, deletes, deleted, spec: (size, partition, deletes, min(deleted, 10 * deletes), spec),
        st.integers(0, 400),
        st.sampled_from("abc"),
        st.integers(0, 2),
        st.integers(0, 12),
        st.integers(0, 1),
    ),
    max_size=40,
).map(
    lambda rows: [
        file(f"f{i}", size, partition=partition, deletes=deletes, deleted=deleted, spec=spec)
        for i, (size, partition, deletes, deleted, spec) in enumerate(rows)
    ]
)
ANY_RULES = st.builds(
    RewriteRules,
    target_bytes=st.integers(10, 200),
    min_input_files=st.integers(1, 6),
    delete_file_threshold=st.sampled_from([1, 2, OFF]),
    delete_ratio_threshold=st.floats(0.1, 1.0),
    rewrite_all=st.booleans(),
    group_bytes=st.integers(200, 2000),
)


@given(RECORDS, ANY_RULES)
def test_no_file_is_planned_twice_and_no_group_mixes_partitions(files: list[FileRecord], rules: RewriteRules) -> None:
    groups = plan_groups(files, rules, 0)

    planned = [f.path for group in groups for f in group]
    assert len(planned) == len(set(planned))
    for group in groups:
        assert len({f.partition if f.spec_id == 0 else "older spec" for f in group}) == 1
        assert len(group) == 1 or sum(f.bytes for f in group) <= rules.group_bytes


@given(RECORDS, ANY_RULES)
def test_every_file_past_a_delete_threshold_is_planned(files: list[FileRecord], rules: RewriteRules) -> None:
    planned = {f.path for group in plan_groups(files, rules, 0) for f in group}

    past = {
        f.path
        for f in files
        if len(f.delete_files) >= rules.delete_file_threshold
        or (f.delete_files and f.deleted_records / f.records >= rules.delete_ratio_threshold)
    }
    assert past <= planned
    if rules.rewrite_all:
        assert planned == {f.path for f in files}


@given(RECORDS, ANY_RULES)
def test_every_planned_group_has_a_reason(files: list[FileRecord], rules: RewriteRules) -> None:
    for group in plan_groups(files, rules, 0):
        size = sum(f.bytes for f in group)
        fewer_files = len(group) > 1 and (len(group) >= rules.min_input_files or size > rules.target_bytes)
        assert fewer_files or rules.rewrite_all or size > rules.max_bytes or any(f.delete_files for f in group)
