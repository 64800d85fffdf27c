"""A part of the mutations of ``scripts/soak hostile``, and what a driver says of files that Iceberg cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.soak.hostile import Soak
from tests.soak.hostile_actions import Jobs
from tests.soak.hostile_lake import NAMESPACE, HostileLake

MUTATIONS = range(15)
ENDINGS = ("metadata/snap-*.avro", "metadata/*-m0.avro")
BROKEN = {"missing": None, "empty": b"", "of zeros": bytes(4_000), "of another format": b"PAR1" + bytes(100)}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileLake]:
    made = HostileLake.made(spark, tmp_path_factory.mktemp("hostile"))
    yield made
    made.restore()


@pytest.mark.in_every_part
def test_altered_tables_neither_hang_nor_run_code_nor_take_files_of_others(lake: HostileLake) -> None:
    assert Soak(lake, "1", loads_of_unreadable=0).play(MUTATIONS) == []


@pytest.mark.parametrize(("ending", "kind"), [*product(ENDINGS, BROKEN), ("data/*.parquet", "missing")])
def test_a_file_that_iceberg_cannot_read_is_told_with_the_table_and_not_tried_again(
    lake: HostileLake, ending: str, kind: str
) -> None:
    lake.restore()
    content = BROKEN[kind]
    for file in (lake.warehouse / NAMESPACE).glob(f"v*/{ending}"):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
    run = RunIdentity.of("dag", f"{ending} {kind}", "task", "-1")
    older, newer = (Jobs(f"{NAMESPACE}.{version}", run) for version in ("v2", "v3"))
    specs = [newer.upsert(lake.batch()), older.upsert(lake.batch()), newer.compaction(CompactionLevel.FULL)]
    specs += [older.delete_rows()] if ending.startswith("data") else [newer.expiry(), newer.delete_rows()]
    for spec in specs:
        with pytest.raises(LakeProviderError, match=rf"^(table )?{spec.table}\b.*: ") as told:
            dispatch_action(lake.spark, spec, Progress())
        assert not told.value.retry_may_help
        assert "\n" not in str(told.value)


SETTINGS = {
    "write.format.default": "NaN",
    "write.parquet.page-size-bytes": "9999999999",
    "write.parquet.row-group-size-bytes": "x",
    "write.target-file-size-bytes": "1e9",
    "write.metadata.compression-codec": "brotli",
    "write.metadata.previous-versions-max": "-",
    "commit.retry.num-retries": "many",
    "commit.manifest.target-size-bytes": "8M",
    "read.split.open-file-cost": "",
    "read.parquet.vectorization.batch-size": "1.5",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_iceberg_cannot_use_is_named_by_every_action_that_needs_it(lake: HostileLake, name: str) -> None:
    lake.restore()
    metadata = lake.metadata("v3")
    metadata["properties"][name] = SETTINGS[name]
    lake.register("v3", metadata)
    jobs = Jobs(f"{NAMESPACE}.v3", RunIdentity.of("dag", f"bad {name}", "task", "-1"))
    told = []
    for spec in (jobs.upsert(lake.batch()), jobs.delete_rows(), jobs.compaction(CompactionLevel.FULL), jobs.expiry()):
        try:
            dispatch_action(lake.spark, spec, Progress())
        except LakeProviderError as error:
            told.append(error)
    assert told, "nothing needs it"
    for failed in told:
        assert not failed.retry_may_help
        assert f"property {name!r} is {SETTINGS[name]!r}, expected" in str(failed)
