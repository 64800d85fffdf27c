"""Position deletes of format version 2: one Parquet file per data file, beside those it has already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_lake_provider.contracts.delete_file_settings import DeleteFileSettings
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.deletes.delete_file_upload import delete_file, upload_delete_file
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import Positions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable

# Reserved field ids of Iceberg's table spec, section "Position Delete Files".
_FILE_PATH_ID, _POS_ID = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, metadata={"PARQUET:field_id": str(_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, metadata={"PARQUET:field_id": str(_POS_ID)}),
    ]
)


def write_position_deletes(table: IcebergTable, files: Mapping[str, Any], positions: Positions) -> list[Any]:
    """Write the files and return them as ``org.apache.iceberg.DeleteFile``.

    :param files: the ``org.apache.iceberg.FileScanTask`` of each data file.
    """
    settings = DeleteFileSettings.of(str(table.name), table.properties())
    written: list[Any] = []
    with discarded_on_failure(table, written):
        for path, task in files.items():
            written.append(_write(table, task, path, positions[path], settings))
    return written


def _write(
    table: IcebergTable, task: Any, path: str, positions: NDArray[np.int64], settings: DeleteFileSettings
) -> Any:
    data_file = task.file()
    content = _parquet(path, positions, settings)
    location = upload_delete_file(table, task.spec(), data_file.partition(), content)
    return (
        table.iceberg.FileMetadata.deleteFileBuilder(task.spec())
        .ofPositionDeletes()
        .withFormat(table.iceberg.FileFormat.PARQUET)
        .withPath(location)
        .withPartition(data_file.partition())
        .withFileSizeInBytes(len(content))
        .withReferencedDataFile(path)
        .withRecordCount(len(positions))
        .build()
    )


def _parquet(path: str, positions: NDArray[np.int64], settings: DeleteFileSettings) -> bytes:
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([path]))
    return delete_file(pa.table([paths.cast(pa.string()), pa.array(positions)], schema=_SCHEMA), settings)
