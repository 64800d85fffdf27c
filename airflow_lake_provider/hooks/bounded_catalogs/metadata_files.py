"""Read metadata files within the limits of a call: in time, and no more bytes than allowed, packed or not."""

from __future__ import annotations

import gzip
import io
import stat
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.io import FileIO, InputFile, InputStream
from pyiceberg.serializers import Compressor, GzipCompressor

from airflow_lake_provider.hooks.call_limits import answer_in_time, deadline, most_bytes, refuse_size, seconds_left

_PIECE = 1024 * 1024


def bound_files(io_: FileIO) -> FileIO:
    """Let a FileIO read its files within the limits of the call; return it."""
    plain: Any = io_.new_input

    def new_input(location: str) -> InputFile:
        return _BoundedInput(plain(location))

    io_.new_input = new_input  # type: ignore[method-assign]  # each kind of store has a class of its own
    return io_


class _BoundedInput(InputFile):
    """A file that is read whole when it is opened: PyIceberg reads metadata and manifests so in any case."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return answer_in_time(lambda: len(self._file))

    def exists(self) -> bool:
        return answer_in_time(self._file.exists)

    def open(self, seekable: bool = True) -> InputStream:
        _refuse_device(self.location)
        until, most, what = deadline(), most_bytes(), f"file {self.location}"

        def read() -> io.BytesIO:
            body = io.BytesIO()
            with self._file.open(seekable) as stream:
                while piece := stream.read(_PIECE):
                    seconds_left(until)
                    refuse_size(body.tell() + len(piece), most, what)
                    body.write(piece)
            body.seek(0)
            return body

        body = answer_in_time(read)
        if isinstance(Compressor.get_compressor(self.location), GzipCompressor):
            _refuse_bomb(body, most, what)
        return body


def _refuse_bomb(packed: io.BytesIO, most: int, what: str) -> None:
    size = 0
    with gzip.open(packed) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            refuse_size(size, most, f"{what}, unpacked,")
    packed.seek(0)


def _refuse_device(location: str) -> None:
    """Refuse a pipe or a device of this machine, whose reading may never begin."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return
    try:
        mode = Path(unquote(parts.path) if parts.scheme else location).stat().st_mode
    except (OSError, ValueError):
        return  # reading it says so
    if not stat.S_ISREG(mode):
        raise IsADirectoryError(f"{location} is no regular file")
