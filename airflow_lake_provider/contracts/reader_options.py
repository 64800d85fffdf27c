"""Options of Spark's readers that a source takes: those that leave out no row, no column and no file.

The lists are those of Spark 4.1: ``CSVOptions``, ``JSONOptions``, ``ParquetOptions``, ``OrcOptions``, ``AvroOptions``,
``TextOptions`` and ``FileIndexOptions``. Spark compares names without case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_lake_provider.contracts.errors import InvalidSpecError

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
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": ("mergeSchema",),
    "avro": (
        "avroSchema",
        "avroSchemaUrl",
        "datetimeRebaseMode",
        "enableStableIdentifiersForUnionType",
        "stableIdentifierPrefixForUnionType",
    ),
    # Each line is one event, read as text.
    "debezium": ("lineSep",),
}
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
    "recursivefilelookup": "a folder stands for all that is below it; leave it out, or give basePath",
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
    "positionalfieldmatching": "leave it out: fields are found by their names",
}


def check_reader_options(options: Mapping[str, str], kind: str | None, name: str) -> None:
    """Refuse options that a source does not take.

    :param kind: format of the files, or ``debezium``; None for a format that is not known yet.
    :param name: of the argument, for the message.
    :raises InvalidSpecError: an option leaves out rows, columns or files, is not known, or is given twice.
    """
    taken = {option.lower() for option in _options_of(kind)}
    seen: set[str] = set()
    for given, value in options.items():
        lower = given.strip().lower()
        if lower in seen:
            raise InvalidSpecError(f"{name} has {given!r} twice: Spark compares the names of options without case")
        seen.add(lower)
        if lower not in taken and not lower.startswith(_PREFIXES):
            instead = _INSTEAD.get(lower)
            why = "may leave out rows, columns or files" if instead else "is not known"
            known = ", ".join(_options_of(kind))
            raise InvalidSpecError(
                f"{name}: the option {given!r} {why}, so a source of {kind or 'any'} files does not take it; "
                + (instead or f"it takes {known}, and fs.* of Hadoop")
            )
        losing, instead = _LOSING.get(lower, ("", ""))
        if losing and value.strip().lower() == losing:
            raise InvalidSpecError(f"{name}: {given}={value!r} leaves out rows or columns; {instead}")


def _options_of(kind: str | None) -> Iterator[str]:
    if kind is None:
        yield from sorted({option for taken in _TAKEN.values() for option in taken})
    else:
        yield from _TAKEN[kind]
    if kind != "debezium":
        yield "basePath"
