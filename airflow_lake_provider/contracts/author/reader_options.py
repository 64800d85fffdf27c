"""Options, column lists and other arguments of sources of files: they leave out no row, no column and no file.

The lists of options are those of Spark 4.1: ``CSVOptions``, ``JSONOptions``, ``XmlOptions``, ``ParquetOptions``,
``OrcOptions``, ``AvroOptions``, ``TextOptions`` and ``FileIndexOptions``. Spark compares names without case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePosixPath

from airflow_lake_provider.contracts.argument_validation import names, not_none, text
from airflow_lake_provider.contracts.author.option_values import check_option_value
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import forbidden_in
from airflow_lake_provider.contracts.text_options import by_lower_name, check_encoding

FORMATS = ("parquet", "orc", "json", "csv", "avro", "xml")
TEXT_FORMATS = ("json", "csv", "xml")
_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".avro": "avro",
    ".xml": "xml",
}
_TIMES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale", "enableDateTimeParsingFallback")
_TEXT = ("encoding", "charset", "lineSep", "multiLine", "mode", *_TIMES)
_JSON_FORMS = (
    "allowBackslashEscapingAnyCharacter",
    "allowComments",
    "allowNonNumericNumbers",
    "allowNumericLeadingZeros",
    "allowSingleQuotes",
    "allowUnquotedControlChars",
    "allowUnquotedFieldNames",
)
_CSV_FORMS = (
    "sep",
    "delimiter",
    "quote",
    "escape",
    "charToEscapeQuoteEscaping",
    "unescapedQuoteHandling",
    "header",
    "ignoreLeadingWhiteSpace",
    "ignoreTrailingWhiteSpace",
    "nullValue",
    "emptyValue",
    "nanValue",
    "positiveInf",
    "negativeInf",
    "inferSchema",
    "preferDate",
    # Columns are those of the header; of types that the sample misses, values are refused.
    "samplingRatio",
    "maxColumns",
    "maxCharsPerColumn",
    "inputBufferSize",
)
_TAKEN = {
    "csv": (*_CSV_FORMS, *_TEXT),
    "json": (*_JSON_FORMS, "primitivesAsString", "prefersDecimal", "inferTimestamp", *_TEXT),
    "xml": (
        *("rowTag", "attributePrefix", "valueTag", "nullValue", "ignoreSurroundingSpaces", "ignoreNamespace"),
        *("inferSchema", "prefersDecimal", "encoding", "charset", "mode", *_TIMES),
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": ("mergeSchema",),
    "avro": (
        "avroSchema",
        "avroSchemaUrl",
        "datetimeRebaseMode",
        "enableStableIdentifiersForUnionType",
        "stableIdentifierPrefixForUnionType",
    ),
}
# Each line is one change event, read as text.
_OF_EVENTS = ("lineSep",)
# Spark hands options to Hadoop as settings: those of a file system, and keys of encrypted files.
_PREFIXES = ("fs.", "parquet.encryption.", "parquet.crypto.", "orc.encrypt", "orc.key.", "hadoop.security.")
# A value that loses rows or columns, where the name is taken.
_LOSING = {
    "mode": ("dropmalformed", "records that cannot be read are always refused; leave it out"),
    "mergeschema": ("false", "the columns of all files are always read; leave it out"),
}
_BY_PATH = "say in the path which files are meant, with a glob or a template"
_INSTEAD = {
    "ignorecorruptfiles": "repair the file, or remove it from the source",
    "ignoremissingfiles": "a file that is gone ends the run, and a retry lists the source anew; leave it out",
    "pathglobfilter": _BY_PATH,
    "recursivefilelookup": "a folder stands for all that is below it; leave it out",
    "basepath": "name the folders that are columns, partition_columns=['day']",
    "modifiedbefore": _BY_PATH,
    "modifiedafter": f"{_BY_PATH}; what was consumed is known, see max_file_age",
    "path": "give it as path",
    "paths": "give one path, a glob such as {a,b}/*.csv",
    "columnnameofcorruptrecord": "records that cannot be read are refused with their place; leave it out",
    "enforceschema": "a header is always compared with the schema; leave it out",
    "comment": "take such lines out of the file: a row that begins with the sign would be lost",
    "samplingratio": "give the source a schema: fields that are in no sampled record would be lost",
    "dropfieldifallnull": "give the source a schema",
    "singlevariantcolumn": "give the source a schema",
    "columnpruning": "leave it out",
    "wholetext": "leave it out: each line is one event",
    "multiline": "write each event into one line",
    "ignoreextension": "leave it out: files are read whatever their names end with",
    "recursivefieldmaxdepth": "leave it out: fields below the depth would be lost",
    "excludeattribute": "an attribute is a column with _ before its name; leave columns out in a Query",
    "rowvalidationxsdpath": "leave it out",
    "wildcardcolname": "declare the columns in the source's schema",
    "positionalfieldmatching": "leave it out: fields are found by their names",
}
_LONGEST_MEMORY_DAYS = 36_500
# As Python and JSON write one; a class of characters has no use for quotes.
_TEXT_OF_LIST = re.compile(r"\s*[\[(]\s*['\"]")


def check_reader_options(options: Mapping[str, str], kind: str | None, name: str) -> None:
    """Refuse options that a source does not take.

    :param kind: format of the files, or the kind of a source of change events; None for a format that is not known yet.
    :param name: of the argument, for the message.
    :raises InvalidSpecError: an option leaves out rows, columns or files, is not known, is given twice, or has a value
        that no reader takes.
    """
    taken = {option.lower() for option in _options_of(kind)}
    seen: set[str] = set()
    for given, value in options.items():
        lower = given.lower()
        if lower in seen:
            raise InvalidSpecError(f"{name} has {given!r} twice: Spark compares the names of options without case")
        seen.add(lower)
        if lower not in taken and not lower.startswith(_PREFIXES):
            instead = _INSTEAD.get(lower)
            why = "may leave out rows, columns or files" if instead else "is not known"
            allowed = ", ".join(_options_of(kind))
            raise InvalidSpecError(
                f"{name}: the option {given!r} {why}, so a source of {kind or 'any'} files does not take it; "
                + (instead or f"it takes {allowed}, and fs.* of Hadoop")
            )
        losing, instead = _LOSING.get(lower, ("", ""))
        if losing and value.strip().lower() == losing:
            raise InvalidSpecError(f"{name}: {given}={value!r} leaves out rows or columns; {instead}")
        check_option_value(given, value, name)
    check_encoding(options, kind, name)
    if kind == "xml":
        _check_row_tag(by_lower_name(options), name)


def _check_row_tag(options: Mapping[str, str], name: str) -> None:
    row_tag = options.get("rowtag", "")
    if not re.fullmatch(r"[\w.:-]+", row_tag):
        raise InvalidSpecError(
            f"{name}: XML needs the name of the element that is a record, such as rowTag='order', got {row_tag!r}"
        )
    if ":" in row_tag and options.get("ignorenamespace", "").lower() == "true":
        raise InvalidSpecError(
            f"{name}: with ignoreNamespace names have no prefix, so no element is called {row_tag!r}; give "
            f"rowTag={row_tag.rpartition(':')[2]!r}, or leave ignoreNamespace out"
        )


def _options_of(kind: str | None) -> Iterator[str]:
    if kind is None:
        yield from sorted({option for taken in _TAKEN.values() for option in taken})
    else:
        yield from _TAKEN.get(kind, _OF_EVENTS)


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))", re.DOTALL)


_TYPES = frozenset(
    (
        *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL"),
        *("DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY", "DATE", "TIME"),
        *("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "VARIANT", "VOID"),
    )
)


# What may stand behind a type, with another word.
_QUALIFIED = {"STRING": ("COLLATE",), "INTERVAL": ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")}


_MAX_NESTING = 50


def check_column_list(text: str, role: str) -> None:
    """Refuse a schema that is more than columns with types, ``NOT NULL`` and ``COMMENT``.

    :param role: argument that the text is of, for messages.
    :raises InvalidSpecError: it names the place.
    """
    unfit = forbidden_in(text)
    if unfit is not None:
        raise InvalidSpecError(f"{role} {text!r} may not have {unfit}")
    _ColumnList(text, role).check()


def column_names(text: str) -> tuple[str, ...]:
    """Return the names of the columns of a schema that :func:`check_column_list` takes."""
    names, depth, is_name = [], 0, True
    for part in _ColumnList(text, "schema").tokens:
        if is_name:
            names.append(part[1:-1].replace("``", "`") if part.startswith("`") else part)
        depth += (part in ("<", "(")) - (part in (">", ")"))
        is_name = part == "," and depth == 0
    return tuple(names)


@dataclass
class _ColumnList:
    text: str
    role: str
    tokens: list[str] = field(init=False)
    place: int = 0
    nesting: int = 0

    def __post_init__(self) -> None:
        self.tokens = []
        at, end = 0, len(self.text.rstrip())
        while at < end:
            token = _TOKEN.match(self.text, at)
            if token is None:
                raise self._refused(self.text[at:].strip()[:20], "is neither a name nor a text; put it in backticks")
            self.tokens.append(token[0].strip())
            at = token.end()

    def check(self) -> None:
        self._columns()
        if self.place < len(self.tokens):
            raise self._refused(self._next(), "only NOT NULL and COMMENT may follow a type")

    def _columns(self) -> None:
        while True:
            self._name()
            self._skip(":")
            self._type()
            if self._skip("NOT"):
                self._take("NULL")
            if self._skip("COMMENT"):
                self._text()
            if not self._skip(","):
                return

    def _name(self) -> None:
        if not re.fullmatch(r"`.+`|\w+", self._next(), re.DOTALL):
            raise self._refused(self._next(), "the name of a column is expected")
        self.place += 1

    def _type(self) -> None:
        word = self._next().upper()
        self.place += 1
        if word in ("ARRAY", "MAP", "STRUCT"):
            self._nested(word)
        elif word not in _TYPES:
            self.place -= 1
            raise self._refused(self._next(), "a type is expected, such as BIGINT or DECIMAL(12,2)")
        elif self._skip("("):
            self._number()
            while self._skip(","):
                self._number()
            self._take(")")
        elif self._next().upper() in _QUALIFIED.get(word, ()):
            self._qualified()

    def _nested(self, word: str) -> None:
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise self._refused(self._next(), f"types are inside of each other more than {_MAX_NESTING} times")
        self._take("<")
        if word == "STRUCT" and self._next() != ">":
            self._columns()
        elif word != "STRUCT":
            self._type()
            if word == "MAP":
                self._take(",")
                self._type()
        self._take(">")
        self.nesting -= 1

    def _qualified(self) -> None:
        self.place += 1
        if self.tokens[self.place - 1].upper() == "COLLATE" or self._skip("TO"):
            self._name()

    def _text(self) -> None:
        if self._next()[:1] not in ("'", '"'):
            raise self._refused(self._next(), "COMMENT takes a text")
        self.place += 1

    def _number(self) -> None:
        if not re.fullmatch(r"[0-9]+", self._next()):
            raise self._refused(self._next(), "a number is expected")
        self.place += 1

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _skip(self, token: str) -> bool:
        is_next = self._next().upper() == token
        self.place += is_next
        return is_next

    def _take(self, token: str) -> None:
        if not self._skip(token):
            raise self._refused(self._next(), f"{token} is expected")

    def _refused(self, token: str, why: str) -> InvalidSpecError:
        at = f"at {token!r}" if token else "at its end"
        return InvalidSpecError(
            f"{self.role} {self.text!r} is not a list of columns in DDL: {at} {why}. A column is a name and a type, "
            "such as 'id BIGINT, total DECIMAL(12,2) NOT NULL'; defaults and generated columns are not taken"
        )


def format_of_path(path: str) -> str:
    """Return the format that a path's ending tells, also before ``.gz``."""
    suffixes = reversed(PurePosixPath(path).suffixes)
    kind = next((_FORMAT_OF_SUFFIX[suffix] for suffix in suffixes if suffix in _FORMAT_OF_SUFFIX), None)
    if kind is None:
        raise InvalidSpecError(
            f"the path {path!r} does not tell a format; give Files(..., format=), one of {', '.join(FORMATS)}"
        )
    return kind


def file_path(value: object, name: str) -> str:
    """Return a path or a glob; one that a template makes of no value, or of a list, would match no file."""
    path = text(not_none(value, name), name)
    if _TEXT_OF_LIST.match(path):
        raise InvalidSpecError(
            f"{name} must be one path or glob, got the text of a list: {path!r}; write a glob such as "
            "'in/{a,b}.csv', or map the task over the paths"
        )
    return path


def file_format(value: object, name: str) -> str:
    """Return a format of files."""
    if value not in FORMATS:
        raise InvalidSpecError(f"{name} must be one of {', '.join(FORMATS)}, got {value!r}")
    return str(value)


def column_list(value: object, name: str) -> str:
    """Return columns as DDL."""
    columns = value if isinstance(value, str) else text(value, name)
    check_column_list(columns, name)
    return columns


def partition_names(value: object, name: str) -> tuple[str, ...]:
    """Return names of folders that are columns."""
    columns = names(() if value is None else value, name)
    lower = [column.lower() for column in columns]
    if len(set(lower)) < len(lower):
        raise InvalidSpecError(f"{name} has a column twice, as names are compared without case, got {value!r}")
    unfit = [column for column in columns if "=" in column or "/" in column]
    if unfit:
        raise InvalidSpecError(f"{name} takes names without value, 'day' for the folder day=2026-01-01, got {unfit}")
    return columns


def file_age(value: object, name: str) -> timedelta:
    """Return how long a consumed file is remembered."""
    # A position keeps whole days.
    age = timedelta(days=math.ceil(duration(value, name) / timedelta(days=1)))
    if age.days > _LONGEST_MEMORY_DAYS:
        raise InvalidSpecError(
            f"{name} must be at most {_LONGEST_MEMORY_DAYS:,} days, got {age.days:,}; an Aggregation forgets no file"
        )
    return age
