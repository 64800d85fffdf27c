"""Values of Protobuf: decoded in Python workers, by descriptors that the driver has read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError, java_names
from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_messages import FAULT, message_rows
from airflow_lake_provider.spark_jobs.sources.kafka.records import UNFIT_MESSAGE, VALUE

_DECODED = "_lake_decoded"


@dataclass(frozen=True)
class ProtobufValues:
    """Decoder of the values of a topic.

    :param descriptors: path or address of a ``FileDescriptorSet``, of any scheme that Hadoop can read.
    :param message: full name.
    """

    spark: SparkSession
    descriptors: str
    message: str

    def decode(self, rows: DataFrame) -> tuple[DataFrame, list[str]]:
        """Add the columns of the values, and return their names.

        :raises BadInputError: there is no such file.
        :raises LakeProviderError: as :class:`.MessageRows`.
        """
        descriptors, message = self._bytes(), self.message
        reader = message_rows(descriptors, message)

        def decoded(values: pa.Array) -> pa.Array:
            return message_rows(descriptors, message).rows(values)

        # Its stubs know no struct.
        decode: Any = arrow_udf
        value = decode(decoded, from_arrow_type(reader.kind))(sf.col(VALUE))
        # Those of the key are there, and are those of the key.
        there = {name.lower() for name in rows.columns}
        names = [name for name in reader.names if name.lower() not in there]
        made = rows.withColumn(_DECODED, value)
        fault = sf.concat(sf.lit(f"{UNFIT_MESSAGE}: "), sf.col(_DECODED).getField(FAULT))
        flagged = made.withColumn(UNPARSABLE, sf.coalesce(UNPARSABLE, fault))
        return flagged.select("*", *(sf.col(_DECODED).getField(name).alias(name) for name in names)), names

    def _bytes(self) -> bytes:
        path = jvm_of(self.spark).org.apache.hadoop.fs.Path(self.descriptors)
        try:
            with closing(path.getFileSystem(hadoop_settings(self.spark)).open(path)) as stream:
                return bytes(stream.readAllBytes())
        except JavaError as error:
            if "FileNotFoundException" not in java_names(error):
                raise
            raise BadInputError(
                f"descriptors={self.descriptors!r} is no file that the driver finds; in cluster mode, where the driver "
                "runs on another machine, put it into a store such as s3a://"
            ) from error
