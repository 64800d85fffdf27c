"""Read and write properties files, such as ``spark-defaults.conf``, as ``java.util.Properties`` and Spark do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from airflow_lake_provider.contracts.errors import InvalidSpecError

# To Java a line ends at these two signs alone, and its blanks are these three.
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Spark cuts from a value what Java's trim() cuts, but for ends of lines.
_CUT = "".join(chr(number) for number in range(0x21) if chr(number) not in "\r\n")


def read_properties(text: str) -> dict[str, str]:
    """Return the settings of a properties file; of one that is given twice, the last value."""
    pairs = (_PAIR.fullmatch(line) for line in _logical_lines(text))
    return {_unescaped(pair[1]): _unescaped(pair[2]).strip(_CUT) for pair in pairs if pair is not None}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield each line with those that it goes on in; a comment goes on in none."""
    line, goes_on = "", False
    for part in _LINE_END.split(text):
        part = part.lstrip(_BLANKS)
        if not goes_on and part[:1] in ("", "#", "!"):
            continue
        goes_on = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        line += part[:-1] if goes_on else part
        if not goes_on:
            yield line
            line = ""
    if line:
        yield line


def _unescaped(text: str) -> str:
    plain = _ESCAPED.sub(lambda sign: _sign(sign[1]), text)
    # Java writes a sign beyond 16 bits as two.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _sign(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _SIGNS.get(escaped, escaped)


def properties_text(settings: Mapping[str, str], author_file: str | None = None) -> str:
    """Return the text of a properties file.

    :param author_file: path of the author's own file, which comes after ``settings`` and wins.
    :raises InvalidSpecError: it cannot be read.
    """
    text = "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in sorted(settings.items()))
    return text + (_author_text(author_file) if author_file is not None else "")


def _author_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSpecError(
            f"properties_file={file!r} cannot be read by the worker as UTF-8: {type(error).__name__}: {error}"
        ) from None


def _escape(text: str, *, key: bool = False) -> str:
    """Escape for ``java.util.Properties``, which Spark reads as UTF-8."""
    escaped = text.replace("\\", "\\\\")
    for sign, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"), ("\f", "f")):
        escaped = escaped.replace(sign, "\\" + letter)
    if key:
        for sign in (" ", "=", ":", "#", "!"):
            escaped = escaped.replace(sign, "\\" + sign)
    return "\\" + escaped if escaped.startswith(" ") else escaped
