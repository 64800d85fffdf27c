"""The live entries of a table's manifests, with what they inherit, and errors of files that are gone or broken.

PyIceberg 0.12 makes a reader for each manifest anew, from the schema that is written in it. To judge a thousand tables
that was most of the CPU time, so here manifests of one schema share a reader. It also reads with the fields of version
2, and so loses which file a deletion vector is for. Its decoder rounds a double to a float, which is another partition.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Self

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
from pyiceberg.avro.reader import DoubleReader, FloatReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor, construct_reader
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.schema import visit_with_partner
from pyiceberg.types import DoubleType, FloatType, IcebergType
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from airflow_lake_provider.contracts.errors import BrokenMetadataError

ENTRY_SCHEMA = MANIFEST_ENTRY_SCHEMAS[3]
_HEADER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})
_AVRO_SCHEMA = "avro.schema"
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


def live_entries(table: str, io: FileIO, manifests: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
    """Yield the entries that are not deleted, manifest by manifest; several are read at once, as PyIceberg does.

    :param table: name, for errors.
    :raises BrokenMetadataError: a manifest is gone, or cannot be read.
    """
    for entries in ExecutorFactory.get_or_create().map(partial(entries_of, table, io), manifests):
        yield from entries


def entries_of(table: str, io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the entries of a manifest that are not deleted.

    :param table: name, for errors.
    :raises BrokenMetadataError: the manifest is gone, or cannot be read.
    """
    path = manifest.manifest_path
    with whole_file(table, f"manifest {path}"), _Manifest(io.new_input(path)) as entries:
        return [_inherited(entry, manifest) for entry in entries if entry.status != ManifestEntryStatus.DELETED]


class _Manifest(AvroFile[ManifestEntry]):
    """A manifest that is read with the reader of its schema."""

    def __enter__(self) -> Self:
        """Read the file, and its header."""
        with self.input_file.open() as file:
            self.decoder = new_decoder(file.read())
        self.header = _HEADER.read(self.decoder)
        self.reader = _reader_of(self.header.meta[_AVRO_SCHEMA])
        return self


@lru_cache(maxsize=128)
def _reader_of(schema: str) -> Reader:
    """Return the reader of manifests whose schema is this text; it has no state."""
    resolver = _Resolver(
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
    reader: Reader = visit_with_partner(  # type: ignore[misc]  # as PyIceberg calls it
        AvroSchemaConversion().avro_to_iceberg(json.loads(schema)), ENTRY_SCHEMA, resolver, SchemaPartnerAccessor()
    )
    return reader


# One object, which is its own equal: files of a partition whose value is NaN are in one partition.
_NAN = float("nan")


def _number(value: float) -> float:
    return _NAN if math.isnan(value) else value


class _ExactDoubleReader(DoubleReader):
    def read(self, decoder: BinaryDecoder) -> float:
        return _number(struct.unpack("<d", decoder.read(8))[0])


class _ExactFloatReader(FloatReader):
    def read(self, decoder: BinaryDecoder) -> float:
        return _number(decoder.read_float())


class _Resolver(ReadSchemaResolver):
    def visit_float(self, float_type: FloatType, partner: IcebergType | None) -> Reader:  # noqa: ARG002  # others ask it
        return _ExactFloatReader()  # type: ignore[no-untyped-call]  # their Singleton

    def visit_double(self, double_type: DoubleType, partner: IcebergType | None) -> Reader:  # noqa: ARG002  # others ask it
        return _ExactDoubleReader()  # type: ignore[no-untyped-call]  # their Singleton


def _inherited(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """Complete an entry by its manifest, as in the table spec's section *Sequence Number Inheritance*."""
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    # Version 1 has none, which is 0.
    inherits = manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED
    if entry.sequence_number is None and inherits:
        entry.sequence_number = manifest.sequence_number
    entry.data_file.spec_id = manifest.partition_spec_id
    return entry
