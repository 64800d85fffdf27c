"""Delete files of a head find the data files that they apply to, by the rules of Iceberg's spec, in little memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, deletes_on
from airflow_lake_provider.tables.iceberg.live_files import DeleteIndex, DeleteRecord, Partition

PARTITIONS: list[tuple[int, Partition]] = [(0, ()), (1, (1,)), (1, (2,)), (2, (1,))]
Placed = tuple[DataFile, Partition, int]


def delete(number: int, kind: str, sequence: int, spec_id: int = 0, partition: Partition = ()) -> DeleteRecord:
    return DeleteRecord(
        id=f"d{number}",
        spec_id=spec_id,
        partition=partition,
        bytes=1,
        records=1,
        sequence=sequence,
        target="f0" if kind in ("vector", "file") else None,
        is_equality=kind == "equality",
        is_vector=kind == "vector",
    )


def data_file(name: str, sequence: int, spec_id: int = 0, partition: Partition = ()) -> Placed:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=name,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=1,
        file_size_in_bytes=1,
    )
    file.spec_id = spec_id
    return file, partition, sequence


@st.composite
def heads(draw: st.DrawFn) -> tuple[list[DeleteRecord], list[Placed]]:
    """Return delete files and data files of any sequence numbers, of four partitions."""
    kinds, numbers, places = (
        st.sampled_from(["equality", "partition", "file", "vector"]),
        st.integers(0, 4),
        st.sampled_from(PARTITIONS),
    )
    deletes = [
        delete(number, kind, sequence, *place)
        for number, (kind, sequence, place) in enumerate(draw(st.lists(st.tuples(kinds, numbers, places), max_size=9)))
    ]
    files = draw(st.lists(st.tuples(numbers, places), max_size=5))
    return deletes, [data_file(f"f{number}", at, *place) for number, (at, place) in enumerate(files)]


def by_the_spec(deletes: list[DeleteRecord], file: DataFile, partition: Partition, sequence: int) -> set[str]:
    """Return the ids of the deletes that apply, each by itself, as section *Scan Planning* of the spec has it."""
    has_vector = any(each.is_vector and each.target == file.file_path for each in deletes)
    ids = set()
    for each in deletes:
        is_there = (each.spec_id, each.partition) == (file.spec_id, partition)
        if each.is_equality:
            applies = each.sequence > sequence and (is_there or each.partition == ())
        else:
            is_meant = is_there if each.target is None else each.target == file.file_path
            applies = is_meant and each.sequence >= sequence and (each.is_vector or not has_vector)
        ids |= {each.id} if applies else set()
    return ids


@given(heads())
def test_deletes_apply_by_sequence_partition_and_target(head: tuple[list[DeleteRecord], list[Placed]]) -> None:
    deletes, files = head
    index, of_all = DeleteIndex(deletes), set[str]()
    records = []
    for file, partition, sequence in files:
        expected = by_the_spec(deletes, file, partition, sequence)
        own, on = index.on(file, partition, sequence)
        assert (set(on), len(on), bool(on)) == (expected, len(expected), bool(expected))
        assert {each.id for each in own} == {d.id for d in deletes if d.target is not None} & expected
        assert all((each.id in on) is (each.id in expected) for each in deletes)
        of_all |= expected
        records.append(
            FileRecord(
                path=file.file_path, spec_id=file.spec_id, partition=partition, bytes=1, records=1, delete_files=on
            )
        )
    assert deletes_on(records) == of_all


def test_memory_goes_with_the_number_of_files_and_not_with_its_square() -> None:
    # As Flink upserts: each commit adds a file, and keys that are deleted from all earlier ones.
    count = 3_000
    deletes = [delete(number, "equality", number) for number in range(count)]
    files = [data_file(f"f{number}", number) for number in range(count)]
    tracemalloc.start()
    index = DeleteIndex(deletes)
    found = [index.on(*each)[1] for each in files]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, found)) == count * (count - 1) // 2
    # A set for each file would take 250 MB.
    assert peak < 8 * 1024**2
