"""First bytes of files that are no text, though they are called so."""

from __future__ import annotations

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
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SIGNATURE_BYTES = 8


def disguise_of(begin: bytes, encoding: str) -> str | None:
    """Return what a file of text is in truth, with what to do; None where its first bytes may be text.

    :param begin: its first :data:`SIGNATURE_BYTES`.
    :param encoding: in which it is read, in lower case.
    """
    for signature, what, remedy in _SIGNATURES:
        if begin.startswith(signature):
            return f"is {what}{f': {remedy}' if remedy else ''}"
    if begin.startswith(_UTF_16) and not encoding.startswith(("utf-16", "utf-32")):
        return "is UTF-16 text: give options={'encoding': 'UTF-16'}; JSON lines have to be UTF-8"
    return None
