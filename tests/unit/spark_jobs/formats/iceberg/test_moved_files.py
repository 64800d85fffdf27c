"""Counts of files that a quarantine has moved, and of the causes of what it could not move."""

from __future__ import annotations

from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.moved_files import MovedFiles


def test_no_number_of_batches_lets_the_causes_grow_and_each_file_counts() -> None:
    every = MovedFiles()
    for number in range(50):
        batch = MovedFiles(moved=2)
        for place in range(30):
            batch.note(f"no answer about {number}-{place}.parquet")
        every.add(batch)
    assert (every.moved, every.failures.total()) == (100, 1_500)
    assert len(every.failures) == 21
    assert every.causes.startswith("another cause (1,480)")
