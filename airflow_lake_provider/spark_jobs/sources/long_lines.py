"""Lines of text that are too long for any reader, refused before one runs out of memory on them.

A packed file is looked into as Spark's readers do, also for the first bytes of its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

# A store answers in tens of milliseconds, and a source may have thousands of files.
_OPENED_AT_ONCE = 16
MEGABYTE = 1024 * 1024
# Some eight times as many bytes are held of a line while it is read; a driver has 1 GiB unless it is told otherwise.
LONGEST_LINE = 64 * MEGABYTE
COMPRESSED = (".gz", ".gzip", ".bz2", ".zst", ".zstd", ".deflate")
# Deflate makes a byte of at most 1,032; bzip2 and Zstandard of a million.
_DEFLATED = (".gz", ".gzip", ".deflate")
_MOST_OF_A_BYTE = 1_032


def refuse_long_lines(
    spark: SparkSession, files: Sequence[InputFile], options: Mapping[str, str], *, seconds: float = 0.0
) -> None:
    """Refuse files of text with a line which no reader could hold.

    A file is opened only where it is large enough for such a line, and read up to its first line break.

    :param options: of the reader: ``lineSep``, ``encoding`` and ``multiLine``.
    :param seconds: how long the lines behind the first are looked at, too.
    :raises BadInputError: naming the file.
    """
    until = monotonic() + seconds
    lower = {name.lower(): str(value) for name, value in options.items()}
    if lower.get("multiline", "false").lower() == "true":
        return
    suspects = [file for file in files if _may_be_long(file)]
    line_break = _line_break(lower)
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        results = opened.map(lambda file: _has_long_line(spark, file.path, line_break, until), suspects)
        for file, is_long in zip(suspects, results, strict=True):
            if is_long:
                raise BadInputError(
                    f"{file.path} has more than {LONGEST_LINE // MEGABYTE} MiB without a line break, in {file.size} "
                    "bytes of the file, which no reader of lines can hold. Where it is one JSON document, give "
                    "options={'multiLine': True}; else repair the file, or remove it from the source"
                )


def _may_be_long(file: InputFile) -> bool:
    path = file.path.lower()
    if path.endswith(_DEFLATED):
        return file.size * _MOST_OF_A_BYTE >= LONGEST_LINE
    return path.endswith(COMPRESSED) or file.size >= LONGEST_LINE


def _line_break(options: Mapping[str, str]) -> bytes | None:
    if "linesep" not in options:
        return None
    return options["linesep"].encode(options.get("encoding", options.get("charset", "utf-8")))


def _has_long_line(spark: SparkSession, path: str, line_break: bytes | None, until: float) -> bool:
    """Count the bytes of the first line, and of the next ones while there is time."""
    jvm = jvm_of(spark)
    try:
        with _unpacked(spark, path) as read:
            given = () if line_break is None else (bytearray(line_break),)
            lines, nothing = jvm.org.apache.hadoop.util.LineReader(read, *given), jvm.org.apache.hadoop.io.Text()
            length = int(lines.readLine(nothing, 0, LONGEST_LINE))
            while 0 < length < LONGEST_LINE and monotonic() < until:
                length = int(lines.readLine(nothing, 0, LONGEST_LINE))
            return length >= LONGEST_LINE
    except JavaError:
        # The reader says what is wrong with the file.
        return False


def first_unpacked_bytes(spark: SparkSession, path: str, count: int) -> bytes:
    """Return the first bytes of the text of a file, packed or not; none of one that cannot be read."""
    try:
        with _unpacked(spark, path) as read:
            return bytes(read.readNBytes(count))
    except JavaError:
        # The reader says what is wrong with the file.
        return b""


@contextmanager
def _unpacked(spark: SparkSession, path: str) -> Iterator[Any]:
    where, conf = jvm_of(spark).org.apache.hadoop.fs.Path(path), hadoop_settings(spark)
    with closing(where.getFileSystem(conf).open(where)) as stream:
        codec = jvm_of(spark).org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(where)
        if codec is None:
            yield stream
            return
        # Hadoop's codec of Zstandard needs a library of the machine, which Spark's readers do without.
        is_zstandard = codec.getDefaultExtension() == ".zst"
        opened = jvm_of(spark).com.github.luben.zstd.ZstdInputStream if is_zstandard else codec.createInputStream
        # Only by its end does a codec get its decompressor back, with memory that no collector frees.
        with closing(opened(stream)) as unpacked:
            yield unpacked
