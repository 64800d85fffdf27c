"""Input files that Spark cannot read: which one, why, and what to do, where a retry would end the same way.

An error that no file is
to blame for, such as a lost executor or a store that does not answer, stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from urllib.parse import unquote

from pyspark.errors import DateTimeException, IllegalArgumentException, NumberFormatException, PySparkException
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.reader_options import TEXT_FORMATS
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.text_options import is_utf8
from airflow_lake_provider.spark_jobs.failures import is_cut_connection, is_unreachable
from airflow_lake_provider.spark_jobs.jvm.gateway import opened_file
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError, java_causes, java_exception
from airflow_lake_provider.spark_jobs.sources.file_ends import (
    SIGNATURE_BYTES,
    disguise_of,
    refuse_cut_ends,
    wide_text_of,
)
from airflow_lake_provider.spark_jobs.sources.long_lines import COMPRESSED, first_unpacked_bytes, refuse_long_lines

# What readers throw at bytes that are not what they should be; a store that fails throws none of these.
_CONTENT_ERRORS = frozenset(
    {
        "ArrayIndexOutOfBoundsException",
        "AvroRuntimeException",
        "AvroTypeException",
        "BufferUnderflowException",
        "CharConversionException",
        "DataFormatException",
        "EOFException",
        "FileFormatException",
        "IncompatibleSchemaException",
        "IndexOutOfBoundsException",
        "InvalidAvroMagicException",
        "InvalidProtocolBufferException",
        "InvalidWireTypeException",
        "MalformedInputException",
        "NegativeArraySizeException",
        "ParquetDecodingException",
        "SchemaColumnConvertNotSupportedException",
        "TProtocolException",
        "TextParsingException",
        "UnmappableCharacterException",
        "ZipException",
        "ZstdIOException",
    }
)
# Of nested fields of Parquet, as their rows are read.
_TWINS = "found duplicate field"
# The same where the class is a plain IOException or RuntimeException.
_CONTENT_WORDS = (
    "not a gzip file",
    "gzip stream crc",
    "is not a parquet file",
    "not an avro data file",
    "not bzip2 formatted",
    "could not decode",
    "failed_to_uncompress",
    "bad block header",
    "crc error",
    "incorrect header check",
    "unknown compression method",
    "incorrect data check",
    "invalid block type",
    "invalid distance",
    "invalid stored block",
    "input is invalid",
    "invalid sync",
    "corrupt",
    "csv header",
    "protocol message",
    "nanos > 999999999 or < 0",
    "decimal_precision_exceeds",
    "cannot_merge_schemas",
    "cannot_merge_incompatible_data_type",
    "column_already_exists",
    "illegal parquet type",
    "invalid spark read type",
    _TWINS,
    # Of a time that its type does not hold, in another unit than microseconds.
    "long overflow",
    "with local time zone",
    "uniontype",
    "parquet_type_illegal",
    "avro_incompatible_read_type",
    "unsupported_time_type",
)
# Files that are whole, of newer writers.
_UNREAD_WRITING = ("unsupported encoding", "compress.brotlicodec")
_UNESCAPED = "unescaped quote character"
# While columns are looked for, Spark does not say in which file.
_OF_SCHEMA = (("csv", _UNESCAPED), ("xml", "invalid utf-8"))
# Of Parquet: a plain column, and a nested one.
_OTHER_TYPE = ("SchemaColumnConvertNotSupportedException", "Invalid Spark read type")
_OTHER_BYTES = ("CharConversionException", "MalformedInputException", "UnmappableCharacterException")
# Alone: with an address behind it, it is a connection that was lost.
_END_OF_BZIP2 = "unexpected end of stream"
_GONE = ("PATH_NOT_FOUND", "FILE_NOT_EXIST", "FileNotFoundException")
_READERS = tuple(
    f"org.apache.spark.sql.{name}." for name in ("catalyst.csv", "catalyst.json", "execution.datasources", "avro")
)
# These write rows, and evaluate what a query has made of them.
_WRITERS = "org.apache.spark.sql.execution.datasources.v2."
_HADOOP = "org.apache.hadoop."
_LINES = ("json", "csv")
# Of a task, and of an executor that ended so.
_OUT_OF_MEMORY = ("java.lang.OutOfMemoryError", "exited with code 52")
_ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".tgz", ".tbz2", ".txz", ".xz", ".lz", ".xlsx", ".xls")
# An archive within, which a codec of Hadoop would unpack to bytes of names and rows.
_PACKED_ARCHIVE = re.compile(r"\.tar\.\w+$", re.IGNORECASE)
# Hadoop reads a block format of its own under the first two names, and takes the first bytes of any other for a length.
_UNREAD_CODECS = (".lz4", ".snappy", ".lzo", ".lzma", ".br", ".z")
_LONGEST = 300
# A store answers in tens of milliseconds, and a source may have thousands of files.
_OPENED_AT_ONCE = 16
_SECONDS_OF_A_SEARCH = 30.0
# Of a batch that is refused, to say why.
_MOST_OPENED = 64


@contextmanager
def refusing_unreadable(
    spark: SparkSession,
    files: tuple[InputFile, ...],
    kind: str | None,
    options: Mapping[str, str] | None = None,
    *,
    is_secret: bool = False,
) -> Iterator[None]:
    """Turn an error over one of these files into one that names it.

    :param files: the input of the batch; an error over another file is none of these.
    :param kind: format of the files.
    :param options: of their reader.
    :param is_secret: what Spark says of the file is left out, it may have values.
    :raises BadInputError: a file is cut off, broken or of another kind; it is to be repaired or removed.
    :raises InvalidSpecError: Spark refuses an option of the reader.
    :raises JobFailedError: a file is gone since it was listed, or cannot be read now.
    """
    try:
        refuse_unfit_files(spark, files, kind)
        if kind in _LINES:
            refuse_long_lines(spark, files, options or {})
            if not is_utf8(options or {}):
                # Of these, no byte is refused for being no text.
                refuse_disguised(spark, files, options or {})
        yield
    except BadInputError as error:
        if kind in _LINES:
            refuse_disguised(spark, files[:_MOST_OPENED], options or {}, None if is_secret else error, skips_gone=True)
        raise
    except SPARK_ERRORS as error:
        if kind in _LINES and any(word in str(error) for word in _OUT_OF_MEMORY):
            # A reader had no memory left.
            refuse_long_lines(spark, files, options or {}, seconds=_SECONDS_OF_A_SEARCH)
        translated = _translated(error, files, kind, is_secret)
        if translated is None:
            raise
        raise translated from (None if is_secret else error)


def refuse_unfit_files(spark: SparkSession, files: Sequence[InputFile], kind: str | None) -> None:
    """Refuse what Spark would take for no rows at all, or for rows of garbage, without a word.

    :raises BadInputError: naming the file.
    :raises JobFailedError: a file of which the first bytes matter cannot be opened now.
    """
    packed = [file for file in files if file.path.lower().endswith(".bz2") and file.size]
    is_text = kind in TEXT_FORMATS
    for file in files:
        # Hive writes an ORC file of 0 bytes for an empty bucket, and Spark takes it for one.
        if file.size == 0 and kind in ("parquet", "avro"):
            raise BadInputError(f"{file.path} has 0 bytes, so it is no {kind} file: {_WAY_OUT}")
        # No compressor writes 0 bytes: it is a file whose writing was never begun, or not ended.
        if is_text and file.size == 0 and file.path.lower().endswith(COMPRESSED):
            raise BadInputError(
                f"{file.path} has 0 bytes, so it is no compressed file, not even of an empty one: {_WAY_OUT}"
            )
        if is_text and file.path.lower().endswith(_UNREAD_CODECS):
            raise BadInputError(
                f"{file.path} is compressed in a format that Spark does not read; compress it as .gz or .zst"
            )
        if file.path.lower().endswith(_ARCHIVES) or _PACKED_ARCHIVE.search(file.path):
            raise BadInputError(
                f"{file.path} is an archive, which Spark does not open; unpack it, or compress each file by itself, "
                "as .gz or .zst"
            )
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        for file, begin in zip(packed, opened.map(lambda file: _first_bytes(spark, file.path, 3), packed), strict=True):
            if begin != b"BZh":
                raise BadInputError(f"{file.path} is no bzip2 file, though its name says so: {_WAY_OUT}")
    refuse_cut_ends(spark, files)


def refuse_disguised(
    spark: SparkSession,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    cause: BadInputError | None = None,
    *,
    skips_gone: bool = False,
) -> None:
    """Refuse what is no text by its first bytes, such as a workbook of Excel that is called ``.csv``.

    Of a compressed file, the text that it unpacks to is looked at.

    :param options: of the reader, for its encoding.
    :param cause: what has been refused of it already.
    :param skips_gone: pass over a file that cannot be opened any more.
    :raises BadInputError: naming the file, and what it is.
    :raises JobFailedError: a file cannot be opened now.
    """
    filled = [file for file in files if file.size]

    def disguise(file: InputFile) -> str | None:
        if file.path.lower().endswith(COMPRESSED):
            return wide_text_of(first_unpacked_bytes(spark, file.path, SIGNATURE_BYTES), options)
        with suppress(JobFailedError) if skips_gone else nullcontext():
            return disguise_of(_first_bytes(spark, file.path, SIGNATURE_BYTES), options)
        return None

    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        for file, what in zip(filled, opened.map(disguise, filled), strict=True):
            if what is not None:
                raise BadInputError(f"{file.path} {what}") from cause


_WAY_OUT = "repair the file, or remove it from the source"


def first_failing(files: Sequence[InputFile], fails: Callable[[Sequence[InputFile]], bool]) -> InputFile:
    """Return the file with which reading them in their order begins to fail.

    :param fails: whether reading some of them fails; it does for all.
    """
    reads, low, high = list(files), 0, len(files)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(reads[:middle]) else (middle, high)
    return reads[low]


def is_content_error(error: Exception) -> bool:
    """Tell whether the bytes of a file are to blame."""
    return not is_cut_connection(error) and any(
        name in _CONTENT_ERRORS or message == _END_OF_BZIP2 or any(words in message.lower() for words in _CONTENT_WORDS)
        for name, message in java_causes(error)
    )


def reason_of(error: Exception) -> str:
    """Return what the reader said last, in one line."""
    causes = list(java_causes(error))
    name, message = causes[-1] if causes else (type(error).__name__, str(error))
    text = " ".join(message.split())
    return f"{name}: {text[:_LONGEST]}"


def _translated(
    error: PySparkException | JavaError, files: Sequence[InputFile], kind: str | None, is_secret: bool
) -> LakeProviderError | None:
    causes = list(java_causes(error))
    text = " ".join((str(error), *(f"{name} {message}" for name, message in causes)))
    file = _named(text, files)
    reason = "" if is_secret else f" ({reason_of(error)})"
    if any(word in text for word in _GONE) and (file is not None or _GONE[0] in text):
        where = file.path if file else "a file of the source"
        return JobFailedError(f"{where} was listed and is gone; a retry lists the source anew")
    if "FAILED_READ_FILE" not in text:
        if files and any(kind == of_kind and words in text.lower() for of_kind, words in _OF_SCHEMA):
            more = f" or one of {len(files) - 1} others" if len(files) > 1 else ""
            return _bad_text(f"{files[0].path}{more}", text, reason)
        is_option_refused = bool(files) and not is_secret and _is_refused_option(error)
        return InvalidSpecError(f"the reader's options are refused{reason}") if is_option_refused else None
    if file is None:
        return None
    if any(word in text.lower() for word in _UNREAD_WRITING):
        return BadInputError(
            f"{file.path} is written in a way that Spark does not read{reason}; write it with plain or dictionary "
            "encoding, and compressed by zstd or snappy"
        )
    # Avro's decoder at the end of a file that was cut off.
    is_cut = kind == "avro" and bool(causes) and causes[-1][0] == "NullPointerException"
    if not is_cut and not is_content_error(error):
        return unreadable(file, kind, error, reason)
    if _UNESCAPED in text.lower() or any(word in text for word in _OTHER_BYTES):
        return _bad_text(file.path, text, reason)
    if _TWINS in text.lower():
        return BadInputError(
            f"{file.path} has fields whose names differ in case alone{reason}, and no table tells them apart; give "
            "each a name of its own there"
        )
    if any(word in text for word in _OTHER_TYPE):
        return BadInputError(
            f"{file.path} cannot be read as {kind}: a column has another type than it is read in{reason}; declare the "
            "types of the files in the source's schema, and cast in a Query"
        )
    return _broken(file, kind, reason)


def _bad_text(where: str, text: str, reason: str) -> BadInputError:
    if _UNESCAPED in text.lower():
        return BadInputError(
            f"{where} has a quote in a quoted value that is not doubled, as RFC 4180 has it{reason}; say how it is "
            r"escaped, options={'escape': '\\'} for a backslash, or repair the file"
        )
    return BadInputError(
        f"{where} has bytes that are no letters in the encoding in which it is read{reason}; say which "
        "encoding it has, options={'encoding': 'windows-1252'} for example, or write it as UTF-8"
    )


def unreadable(file: InputFile, kind: str | None, error: Exception, reason: str | None = None) -> LakeProviderError:
    """Return the error of a file that cannot be read: bad input by its bytes, else one that is retried.

    :param reason: what is shown of the error; an empty text where it may have values.
    """
    why = f" ({reason_of(error)})" if reason is None else reason
    if not is_content_error(error):
        return JobFailedError(f"{file.path} cannot be read now{why}")
    return _broken(file, kind, why)


def _broken(file: InputFile, kind: str | None, why: str) -> BadInputError:
    return BadInputError(
        f"{file.path} cannot be read as {kind}, it is cut off, broken or no such file{why}: {_WAY_OUT}"
    )


def _is_refused_option(error: Exception) -> bool:
    """Tell whether Spark's reader refused an option; expressions, Iceberg and Hadoop throw the same classes."""
    # The second one is of a zone that nobody knows.
    is_of_class = isinstance(error, (IllegalArgumentException, DateTimeException))
    if not is_of_class or isinstance(error, NumberFormatException):
        return False
    java = java_exception(error)
    if java is None or is_unreachable(error):
        return False
    stack = [str(frame.getClassName()) for frame in java.getStackTrace()]
    of_reader = any(name.startswith(_READERS) and not name.startswith(_WRITERS) for name in stack)
    return of_reader and not any(name.startswith(_HADOOP) for name in stack)


def _named(text: str, files: Sequence[InputFile]) -> InputFile | None:
    """Return the file that an error names; of paths that begin alike the longest."""
    spelled = f"{text} {unquote(text)}".replace("file:///", "file:/")
    named = [file for file in files if file.path.replace("file:///", "file:/") in spelled]
    return max(named, key=lambda file: len(file.path), default=None)


def _first_bytes(spark: SparkSession, path: str, count: int) -> bytes:
    try:
        with opened_file(spark, path) as stream:
            return bytes(stream.readNBytes(count))
    except JavaError as error:
        raise JobFailedError(f"{path} cannot be read now ({reason_of(error)})") from error
