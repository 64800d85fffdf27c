"""Errors of files that a table's metadata names, and that are gone or cannot be read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_lake_provider.contracts.errors import BrokenMetadataError

# What the reading of Avro ends in where a file is cut off, or is another one; PyIceberg's decoder is one of C. Other
# errors of a store may pass.
_OF_CONTENT = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError),
    *(EOFError, SystemError, struct.error, zlib.error),
)
_REMEDY = (
    "Restore the file; where nobody can, move main back by LakeRollbackOperator to a snapshot whose files are there"
)


@contextmanager
def whole_file(table: str, what: str) -> Iterator[None]:
    """Let the reading of a manifest or of a manifest list say what is broken, and what helps.

    :param table: name, for the error.
    :param what: is read, with its location.
    :raises BrokenMetadataError: it is gone, or is no such file.
    """
    try:
        yield
    except FileNotFoundError:
        raise BrokenMetadataError(f"{table}: {what} is gone. {_REMEDY}") from None
    except _OF_CONTENT as error:
        # What it says may be from the file, and a catalog may name any file of this machine.
        raise BrokenMetadataError(f"{table}: {what} cannot be read ({type(error).__name__}). {_REMEDY}") from None
