"""Values of Protobuf: decoded in Python workers, by descriptors that the driver has read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.jvm.gateway import opened_file
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError, java_names
from airflow_lake_provider.spark_jobs.sources.kafka.protobuf_messages import FAULT, message_rows
from airflow_lake_provider.spark_jobs.sources.kafka.records import DECODED, UNFIT_MESSAGE, VALUE, with_fields


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
        fault = sf.concat(sf.lit(f"{UNFIT_MESSAGE}: "), sf.col(DECODED).getField(FAULT))
        return with_fields(rows.withColumn(DECODED, value), reader.names, fault)

    def _bytes(self) -> bytes:
        try:
            with opened_file(self.spark, self.descriptors) as stream:
                return bytes(stream.readAllBytes())
        except JavaError as error:
            if "FileNotFoundException" not in java_names(error):
                raise
            raise BadInputError(
                f"descriptors={self.descriptors!r} is no file that the driver finds; in cluster mode, where the driver "
                "runs on another machine, put it into a store such as s3a://"
            ) from error
