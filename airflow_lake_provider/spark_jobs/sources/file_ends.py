"""Both ends of files: first bytes that are no text, though they are called so, and the ends of compressed ones.

Hadoop's bzip2 and Zstandard read nothing of a cut or foreign rest, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.text_options import is_wide
from airflow_lake_provider.spark_jobs.jvm.gateway import opened_file
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

# Bytes of a file, from a place on; fewer at its end.
Read = Callable[[int, int], bytes]

# A store answers in tens of milliseconds, and a source may have thousands of files.
_OPENED_AT_ONCE = 16
# Of bzip2: 48 bits behind the last block, then a checksum of 32, and up to 7 that fill the byte.
_END_OF_BLOCKS, _END_BITS, _CHECKSUM_BITS = 0x177245385090, 48, 32
_END_BYTES = 11
# Of Zstandard. Spark's reader takes the rest for read if it is in the same buffer as the end of a frame.
_FRAME = b"\x28\xb5\x2f\xfd"
_BUFFER = 128 * 1024 + 3
_HEADER = 18
_RESERVED = 3
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_COMPRESS = "compressed, though its name does not end so: rename it"
_OTHER = "give format="
# First bytes, what has them, and what to do.
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive, or a workbook of Excel", "unpack it, or export the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook of Excel", "export the sheet as CSV"),
    (b"\x1f\x8b", f"{_COMPRESS} to end with .gz", ""),
    (b"BZh91AY&", f"{_COMPRESS} to end with .bz2", ""),
    (b"\x28\xb5\x2f\xfd", f"{_COMPRESS} to end with .zst", ""),
    (b"\xfd7zXZ", "an xz file", "compress it as .gz or .zst"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it"),
    (b"Rar!", "a rar archive", "unpack it"),
    (b"PAR1\x15", "a Parquet file", f"{_OTHER}'parquet'"),
    (b"Obj\x01", "an Avro file", f"{_OTHER}'avro'"),
    (b"%PDF", "a PDF document", "write the rows as CSV or JSON"),
)
# The marks of the longer ones first: that of UTF-32 begins as one of UTF-16.
_MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
SIGNATURE_BYTES = 8


def disguise_of(begin: bytes, options: Mapping[str, str]) -> str | None:
    """Return what a file of text is in truth, with what to do; None where its first bytes may be text.

    :param begin: its first :data:`SIGNATURE_BYTES`.
    :param options: of its reader, for the encoding.
    """
    for signature, what, remedy in _SIGNATURES:
        if begin.startswith(signature):
            return f"is {what}{f': {remedy}' if remedy else ''}"
    return wide_text_of(begin, options)


def wide_text_of(begin: bytes, options: Mapping[str, str]) -> str | None:
    """Return which encoding of two or four bytes a letter a file has, with what to do; None for any other.

    :param begin: the first :data:`SIGNATURE_BYTES` of its text.
    :param options: of its reader, for the encoding.
    """
    wide = None if is_wide(options) else _wide_encoding(begin)
    if wide is None:
        return None
    unfit = "JSON lines have to be UTF-8, and so have lines with dead_letter"
    return f"is {wide} text: give options={{'encoding': '{wide}'}}; {unfit}"


def _wide_encoding(begin: bytes) -> str | None:
    """Return an encoding of two or four bytes a letter by its mark, or by the NUL beside each letter of ASCII."""
    for mark, encoding in _MARKS:
        if begin.startswith(mark):
            return encoding
    first, second = begin[::2], begin[1::2]
    if len(second) < 2 or any(first) == any(second):
        return None
    if all(first):
        return "UTF-16LE"
    return "UTF-16BE" if all(second) else None


def refuse_cut_ends(spark: SparkSession, files: Sequence[InputFile]) -> None:
    """Refuse files that have something else behind their last whole stream, such as a stream that was cut off.

    :raises BadInputError: naming the file.
    :raises JobFailedError: a file cannot be opened now.
    """
    checks: dict[InputFile, Callable[[Read, int], bool]] = {}
    for file in files:
        # Spark finds a codec whatever the case of the name.
        path = file.path.lower()
        if file.size and path.endswith(".bz2"):
            checks[file] = _ends_as_bzip2
        elif file.size and path.endswith((".zst", ".zstd")):
            checks[file] = _ends_as_zstandard
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        results = opened.map(lambda file: _check(spark, file, checks[file]), checks)
        for file, is_whole in zip(checks, results, strict=True):
            if not is_whole:
                raise BadInputError(
                    f"{file.path} is cut off, or has other bytes behind what was compressed, which no reader shows: "
                    "repair the file, or remove it from the source"
                )


def _check(spark: SparkSession, file: InputFile, is_whole: Callable[[Read, int], bool]) -> bool:
    try:
        with opened_file(spark, file.path) as stream:

            def read(place: int, count: int) -> bytes:
                if place >= file.size:
                    return b""
                stream.seek(place)
                return bytes(stream.readNBytes(count))

            return is_whole(read, file.size)
    except JavaError as error:
        raise JobFailedError(f"{file.path} cannot be read now ({error})") from error


def _ends_as_bzip2(read: Read, size: int) -> bool:
    end = int.from_bytes(read(max(size - _END_BYTES, 0), _END_BYTES))
    mask = (1 << _END_BITS) - 1
    return any(end >> (_CHECKSUM_BITS + fill) & mask == _END_OF_BLOCKS for fill in range(8))


def _ends_as_zstandard(read: Read, size: int) -> bool:
    place = max(size - _BUFFER - len(_FRAME), 0)
    rest = read(place, size - place)
    begins = any(rest.endswith(_FRAME[:count]) for count in (1, 2, 3))
    if not begins and rest.find(_FRAME, 0 if place else 1) < 0:
        # No frame begins where Spark would not miss its end.
        return True
    end: int | None = 0
    while end is not None and end < size:
        end = _end_of_frame(read, end)
    return end == size


def _end_of_frame(read: Read, start: int) -> int | None:
    """Return the place behind a frame, which may be behind the end of the file; None where there is no frame."""
    header = read(start, _HEADER)
    if len(header) < len(_FRAME) + 1:
        return None
    if int.from_bytes(header[:4], "little") in _SKIPPABLE:
        return start + 8 + int.from_bytes(header[4:8], "little") if len(header) >= 8 else None
    if not header.startswith(_FRAME):
        return None
    descriptor = header[4]
    is_single = descriptor >> 5 & 1
    sizes = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6] + (0, 1, 2, 4)[descriptor & 3]
    place, is_last = start + 5 + (1 - is_single) + sizes, False
    while not is_last:
        begin = read(place, 3)
        block = int.from_bytes(begin, "little")
        if len(begin) < 3 or block >> 1 & 3 == _RESERVED:
            return None
        # A block of one byte that is repeated has its length in the header, and one byte.
        is_repeated = block >> 1 & 3 == 1
        place, is_last = place + 3 + (1 if is_repeated else block >> 3), bool(block & 1)
    return place + 4 * (descriptor >> 2 & 1)
