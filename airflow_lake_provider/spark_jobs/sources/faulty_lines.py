"""Lines of JSON and CSV that Spark's readers take and read wrong, and names of faults: a batch is refused for them.

They are read as text beside the rows, in the same job. Of JSON, Spark's parser stops behind the first value of a line:
a sink that puts no newline between records loses all but the first. In the place of half of a surrogate pair, which is
no character (RFC 8259, section 8.2), it puts a question mark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.text_options import by_lower_name, encoding_of, is_utf8, is_wide
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE
from airflow_lake_provider.spark_jobs.jvm.gateway import java_context, jvm_of
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, literal_paths
from airflow_lake_provider.spark_jobs.sources.long_lines import COMPRESSED
from airflow_lake_provider.spark_jobs.sources.text_values import is_rounded, may_be_rounded
from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, columns_text, matches, quoted_name, text_literal

MORE_VALUES = "more than one value"
HALF_PAIR = "half of a surrogate pair"
# A low half behind no high one, or a high one before no low one, each behind an even number of backslashes.
_LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*+(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)
_ESCAPE = "\\u"
_VALUES = '{"values":'
_OF_BYTES = {"encoding", "charset", "linesep", "multiline"}
OPEN_QUOTE = "a quoted value without its end"
OPEN_AT_END = "a quoted value that goes on to the end of its file"
UNFIT_QUOTES = f"{OPEN_QUOTE}, or with a quote that is not doubled"
MARK_INSIDE = "a mark of the byte order inside of the file"
REPEATED_HEADER = "the header once more"
NO_VALUES = "a line of control characters alone"
NUL_BEFORE = "NUL characters before a record"
NO_FIELD = "a repaired letter without a field"
REPEATED = "an element that is there more than once"
OPEN_DOCUMENT = "a document without its end"
NO_RECORD = "a document without a record"
INNER_RECORD = "a record inside of another one"
NIL = "an element that is nil"
NANOSECONDS = "a time with nanoseconds"
MIXED_ENDS = "a line that ends otherwise than the first"
KEY_TWICE = "a map that has a key twice"
ROUNDED = "a number that loses digits"
CHANGED_VALUE = "a value that its type does not hold"
# What may be wrong with a record that Spark's reader takes, and what to do.
FAULTS = {
    MORE_VALUES: "write each record into a line of its own, without options={'multiLine': True}, or all into one array",
    HALF_PAIR: "no text can hold it; write the character, or the replacement character",
    OPEN_QUOTE: "give options={'multiLine': True} for values of several lines, or say how a quote is escaped, "
    "options={'escape': '\\\\'} for a backslash",
    OPEN_AT_END: "the file was cut off, or a quote in it opens a value that nothing ends; write the file again",
    MIXED_ENDS: "with options={'multiLine': True} all lines have to end alike; write LF or CRLF throughout",
    MARK_INSIDE: "files were joined to one: leave out the mark of each, and its header, but for the first",
    REPEATED_HEADER: "files were joined to one: leave out the header of each but the first",
    NO_VALUES: "a crash of a writer leaves NUL characters: write the file again; a row has to have a key",
    NUL_BEFORE: "a crash of a writer leaves them in the place of records: write the file again",
    NO_FIELD: "write its record, or NULL where it is not repaired",
    REPEATED: "one value would be lost; declare its column as an ARRAY, or with a plain type where it is an attribute; "
    "give another attributePrefix where an attribute has its name, too",
    OPEN_DOCUMENT: "it was cut off: write the file again",
    NO_RECORD: "options={'rowTag': ...} names the element that is a record, as it is spelled, its prefix included",
    INNER_RECORD: "only the outer one would be read; declare a column of the row tag's name, which has the inner ones",
    NIL: "Spark reads it as the empty text: write no such element in its place, which is NULL",
    NANOSECONDS: "no table holds them: write microseconds, with coerce_timestamps='us' of pandas and pyarrow",
    KEY_TWICE: "readers take one or the other; write each once",
    ROUNDED: "here a fraction has the 15 digits of every double; write it as text, in quotes",
    CHANGED_VALUE: "it would be rounded, cut off, or taken for another; declare a wider type, or STRING and cast it in "
    "a Query; options such as dateFormat and timestampFormat, and locale of CSV and XML, say how it is written",
}
# By which lines are found; a name with a dot is a setting of the file system.
_OF_LINES = {"linesep", "encoding", "charset"}
# Of no meaning in a regular expression.
_PLAIN = "\"',;:\t "
_CONTROLS = r"^[\x00-\x20]++$"
HAS_TEXT = "octet_length(trim(value)) > 0"
# Between values of JSON all of these are blanks (RFC 8259, section 2); of CSV a tab may part two of them.
_BLANKS = text_literal(" \t\r\n")
HAS_JSON = f"octet_length(trim(LEADING {_BLANKS} FROM value)) > 0"
_MEGABYTE = 1024 * 1024
# A driver of 1 GB ended on an array of 48 MB: the text is parsed with the types, and as an element of another array.
_MEMORY_OF_A_BYTE = 24
# Java's regular expressions take a place of the stack for each field.
_MOST_FIELDS = 1_000


def faulty_lines(
    spark: SparkSession,
    source: Files,
    files: Sequence[InputFile],
    options: Mapping[str, str],
    schema: StructType,
    declared: StructType,
) -> list[Scan]:
    """Return a scan of the lines that Spark's reader would take and read wrong.

    Where a value may have several lines, a file is one. Of CSV, those that no task holds as a whole are not looked at.

    :param options: of the reader, with our defaults.
    :param schema: of the rows; the scan has only ``_lake_unparsable`` of it, which says what is wrong.
    :param declared: types that the columns are to have.
    """
    lower = by_lower_name(options)
    is_whole = lower.get("multiline", "false").lower() == "true"
    line = decoded_line(lower)
    if source.format == "json":
        json_fault = fault_of_line(line, options)
        if not is_utf8(lower) and not is_whole:
            json_fault = f"coalesce({json_fault}, {_fault_of_numbers(line, options, schema, declared)})"
        # In this order: a sound line is not parsed once more.
        parsed = is_parsed(line, columns_text(schema), options)
        fault = f"CASE WHEN {json_fault} IS NOT NULL THEN CASE WHEN {parsed} THEN {json_fault} END END"
    elif is_whole:
        files = [file for file in files if _needed_memory(file) <= _memory_of_a_task(spark)]
        if not files or not (fault := fault_of_csv_file(lower)):
            return []
    else:
        fault = fault_of_csv_line(line, lower)
    more = {"wholetext": "true"} if is_whole else {}
    lines = text_lines(spark, literal_paths(files), options, **more)
    lines = lines.filter(HAS_JSON if source.format == "json" else HAS_TEXT)
    return [Scan(rows=lines, columns=[sf.expr(fault).alias(UNPARSABLE)], where=f"{UNPARSABLE} IS NOT NULL")]


def _fault_of_numbers(line: str, options: Mapping[str, str], schema: StructType, declared: StructType) -> str:
    """Return SQL of the fault of a line whose numbers Spark rounds: its reader keeps the texts of those in UTF-8."""
    parsed = _from_json(line, columns_text(schema), options)
    rounded = any_of(is_rounded(line, f"{parsed}.{quoted_name(f.name)}", f.dataType) for f in declared)
    return f"CASE WHEN {may_be_rounded(line)} AND ({rounded}) THEN {text_literal(ROUNDED)} END"


def refuse_large_documents(spark: SparkSession, files: Sequence[InputFile]) -> None:
    """Refuse files of one JSON document that a task has no memory for; what a packed one unpacks to is not known.

    :raises BadInputError: naming the file and both sizes.
    """
    heap = _memory_of_a_task(spark)
    for file in files:
        if file.size * _MEMORY_OF_A_BYTE > heap:
            raise BadInputError(
                f"{file.path} is a JSON document of {file.size // _MEGABYTE} MiB. It is held in memory up to "
                f"{_MEMORY_OF_A_BYTE} times, and a task has {heap // _MEGABYTE} MiB: write a line for each record, "
                "or give spark.driver.memory, and on a cluster spark.executor.memory, in conf"
            )


def _memory_of_a_task(spark: SparkSession) -> int:
    """Return the bytes of the heap in which a task runs."""
    if str(spark.sparkContext.master).startswith("local"):
        return int(jvm_of(spark).java.lang.Runtime.getRuntime().maxMemory())
    return int(java_context(spark).executorMemory()) * _MEGABYTE


def _needed_memory(file: InputFile) -> int:
    """Return about how many bytes of memory the quotes of a file take; texts are packed to a tenth."""
    return file.size * _MEMORY_OF_A_BYTE * (10 if file.path.lower().endswith(COMPRESSED) else 1)


def text_lines(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str], **more: str) -> DataFrame:
    """Return the lines of files, as options of another reader find them."""
    kept = {name: value for name, value in options.items() if name.lower() in _OF_LINES or "." in name}
    return spark.read.format("text").options(**kept, **more).load(list(paths))


def fault_of_csv_line(line: str, options: Mapping[str, str], *, of_every_quote: bool = False) -> str:
    """Return SQL of the fault of a line of CSV that Spark's parser accepts; NULL for a sound line.

    :param options: of the reader, by lower-case name, with our defaults.
    :param of_every_quote: look at quotes that end Spark's parser with an error, too.
    """
    # Spark takes these two signs for one.
    separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    fault = _fault_without_values(line, separator)
    # A line of UTF-16 may begin with half of a letter.
    if not is_wide(options) and not separator.startswith("\0"):
        # One alone is a value: the bcp of SQL Server writes it for an empty text.
        nul, empty = (text_literal(text) for text in ("\0", f"\0{separator}"))
        is_behind_nul = f"startswith({line}, {nul}) AND NOT startswith({line}, {empty})"
        fault = f"coalesce({fault}, CASE WHEN {is_behind_nul} THEN {text_literal(NUL_BEFORE)} END)"
    if not _is_doubled(options) or "\\" in separator:
        return fault
    quotes = _fault_of_quotes(line, options.get("quote", '"'), separator, of_every_quote)
    return f"coalesce({fault}, {quotes})"


def fault_of_csv_file(options: Mapping[str, str]) -> str:
    """Return SQL of the fault of a whole file of CSV that Spark's parser accepts: it ends within a quoted value.

    Any other quote within a quoted value ends Spark's parser with an error.

    :param options: of the reader, by lower-case name, with our defaults.
    :return: empty where the options give quotes a meaning that is not looked at here.
    """
    quote, escape, plain = options.get("quote", '"'), options["escape"], decoded_line(options)
    is_odd = options.get("comment") or (escape != quote and "chartoescapequoteescaping" in options)
    # To decode half a character would end the job, and hide where it is.
    if not quote or is_odd or is_wide(options):
        return ""
    if escape and escape != quote:
        for sign in (escape, quote):
            plain = f"replace({plain}, {text_literal(escape + sign)}, 'xx')"
    # Between two quotes: at the start of a value, or of the file; in a value without quotes; in one with them; behind
    # a quote that may be doubled.
    start, first, bare, inside, closed = range(5)
    separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    behind = dict.fromkeys((separator, "\n", "\r", options.get("linesep", "\n"), "\ufeff"))
    blank = "rtrim(part)" if options.get("ignoreleadingwhitespace", "").lower() == "true" else "part"
    is_start = " OR ".join(f"endswith({blank}, {text_literal(sign)})" for sign in behind)
    step = (
        f"CASE WHEN state IN ({start}, {closed}) THEN {inside} "
        f"WHEN part = '' THEN CASE state WHEN {inside} THEN {closed} WHEN {first} THEN {start} ELSE {bare} END "
        f"WHEN {is_start} THEN {start} ELSE {bare} END"
    )
    parts = f"split({plain}, {text_literal(_sign(quote))})"
    is_open = f"aggregate({parts}, {first}, (state, part) -> {step}) = {inside}"
    has_quotes = f"contains({plain}, {text_literal(quote)})"
    return f"CASE WHEN {has_quotes} AND {is_open} THEN {text_literal(OPEN_AT_END)} END"


def fault_of_line(line: str, options: Mapping[str, str] | None = None) -> str:
    """Return SQL of the fault of a line that Spark's parser accepts; NULL for a sound line.

    As one text: made of columns, it is two hundred calls to the JVM.
    """
    # A search for one byte is quick; the others are for lines that have it.
    is_escaped = f"contains({line}, {text_literal(_ESCAPE)})"
    is_half = f"{is_escaped} AND {matches(line, _LONE_SURROGATE)}"
    more = f"NOT ({_ends_with_its_only_brace(line)}) AND {_is_not_one_value(line, options or {})}"
    return f"CASE WHEN {more} THEN {text_literal(MORE_VALUES)} WHEN {is_half} THEN {text_literal(HALF_PAIR)} END"


def is_parsed(line: str, schema: str, options: Mapping[str, str]) -> str:
    """Return the condition that Spark's parser accepts a line, so that its fault is named nowhere else.

    :param schema: DDL, with the column of corrupt records.
    """
    record = f"{_from_json(line, schema, options)}.{quoted_name(UNPARSABLE)} IS NULL"
    # Spark's reader makes a row of each object of an array, which the function does not.
    array = f"{_from_json(line, f'ARRAY<STRUCT<{schema}>>', options)} IS NOT NULL"
    return f"CASE WHEN {begins_with(line, '[')} THEN {array} ELSE {record} END"


def begins_with(line: str, sign: str) -> str:
    """Return the condition that a line of JSON begins with a sign, behind any blanks; ``ltrim`` knows spaces alone."""
    return f"startswith(trim(LEADING {_BLANKS} FROM {line}), {text_literal(sign)})"


def _ends_with_its_only_brace(line: str) -> str:
    """Return whether a line is a flat object without a brace in its texts, which need not be parsed again."""
    before = f"substring(CAST({line} AS BINARY), 1, octet_length({line}) - 1)"
    return f"endswith({line}, '}}') AND NOT contains({before}, X'7D')"


def _is_not_one_value(line: str, options: Mapping[str, str]) -> str:
    # An element of an array, before another one; a comment may go to the end of the line.
    array = f"concat('[', {line}, decode(X'0A', 'UTF-8'), ',0]')"
    forms = {name: value for name, value in options.items() if name.lower().startswith("allow")}
    # The first function is quick, and knows neither comments nor names without quotes.
    strictly = f"coalesce(json_array_length({array}) = 2, false)"
    wrapped = f"concat({text_literal(_VALUES)}, {array}, '}}')"
    leniently = f"coalesce(size({_from_json(wrapped, 'values ARRAY<STRING>', forms)}.values) = 2, false)"
    return f"NOT {strictly} AND NOT {leniently}"


def _from_json(text: str, schema: str, options: Mapping[str, str]) -> str:
    return parsed_line("from_json", text, schema, options)


def parsed_line(function: str, text: str, schema: str, options: Mapping[str, str]) -> str:
    """Return SQL that parses a text by a function of Spark's: ``from_json`` or ``from_csv``.

    :param options: of the reader of files; those that say how lines are found are left out.
    """
    options = {name: value for name, value in options.items() if name.lower() not in _OF_BYTES}
    given = ", ".join(text_literal(part) for pair in options.items() for part in map(str, pair))
    return f"{function}({text}, {text_literal(schema)}{f', map({given})' if given else ''})"


def decoded_line(options: Mapping[str, str]) -> str:
    """Return SQL of the column of Spark's reader of text, which takes all bytes for UTF-8, as text."""
    if is_utf8(options):
        return "value"
    encoding = encoding_of(options) if is_wide(options) else "iso-8859-1"
    return f"decode(CAST(value AS BINARY), {text_literal(encoding)})"


def _is_doubled(options: Mapping[str, str]) -> bool:
    """Tell whether quotes in a quoted value are doubled: another escape has rules of its own."""
    quote = options.get("quote", '"')
    return bool(quote) and quote == options["escape"]


def _fault_without_values(line: str, separator: str) -> str:
    """Tell a line that begins with a mark, or that Spark's reader takes for an empty one, though it is not."""
    # All but those of blanks, and the end of a file of DOS.
    has_more = matches(line, r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
    if separator.strip(" "):
        has_more = f"({has_more} OR contains({line}, {text_literal(separator)}))"
    # The reader of lines leaves out the one at the start of a file.
    return (
        f"CASE WHEN startswith({line}, '\ufeff') THEN {text_literal(MARK_INSIDE)} "
        f"WHEN {matches(line, _CONTROLS)} AND {has_more} THEN {text_literal(NO_VALUES)} END"
    )


def _fault_of_quotes(line: str, quote: str, separator: str, of_every_quote: bool) -> str:
    """Tell a line that ends within a quoted value, which Spark's reader takes for its end."""
    q, s = re.escape(quote), re.escape(separator)
    # A quote may also stand alone in a value that is not quoted: 5" pipe.
    bare = rf"[^{s}]*+" if len(separator) == 1 else rf"(?:(?!{s}).)*+"
    field = rf"(?:{q}[^{q}]*+(?:{q}{q}[^{q}]*+)*+{q}[ \t]*+|(?!{q}){bare})"
    is_complete = matches(line, rf"(?s)^{field}(?:{s}{field})*+\s*+$")
    is_fault = f"NOT {is_complete}"
    if not of_every_quote:
        # An even count of quotes is open only behind one that stands alone; other faults of it end Spark's parser.
        is_open = matches(line, rf"(?s)^(?:{field}{s})*+{q}[^{q}]*+(?:{q}{q}[^{q}]*+)*+$")
        is_open = f"({_may_be_open(line, quote, separator)}) AND {is_open}"
        is_fault = f"CASE WHEN {_count(line, quote)} % 2 = 0 THEN {is_open} ELSE {is_fault} END"
    may_be = f"contains({line}, {text_literal(quote)}) AND {_count(line, separator)} < {_MOST_FIELDS}"
    fault = UNFIT_QUOTES if of_every_quote else OPEN_QUOTE
    return f"CASE WHEN {may_be} AND {is_fault} THEN {text_literal(fault)} END"


def _may_be_open(line: str, quote: str, separator: str) -> str:
    """Return a quick condition without which no value is open: the last quote opens one, or is a doubled one."""
    sign = text_literal(quote)
    head = f"substring({line}, 1, length({line}) - length(substring_index({line}, {sign}, -1)) - 1)"
    opens = (text_literal(separator + quote), text_literal(2 * quote))
    # Of most lines with quotes, the last sign is one that ends a value.
    is_closed = f"endswith({line}, {sign}) AND NOT endswith({line}, {opens[0]}) AND NOT endswith({line}, {opens[1]})"
    is_opened = f"{head} = '' OR endswith({head}, {text_literal(separator)}) OR endswith({head}, {sign})"
    return f"CASE WHEN {is_closed} THEN false ELSE {is_opened} END"


def _count(line: str, sign: str) -> str:
    # Java splits a text at one sign without a regular expression, quicker than Spark replaces it.
    return f"(size(split({line}, {text_literal(_sign(sign))})) - 1)"


def _sign(sign: str) -> str:
    """Return the regular expression of a sign; Java splits at one without a meaning of its own quicker."""
    return sign if sign in _PLAIN else re.escape(sign)


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)
