"""Options of Spark's readers: what leaves out rows, columns or files is refused by name while a DAG is parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.reader_options import FORMATS
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

# Option, a value that loses something, and a word of what to do instead.
OF_FILES = [
    ("ignoreCorruptFiles", "true", "repair the file"),
    ("ignoreMissingFiles", "true", "leave it out"),
    ("pathGlobFilter", "*.json", "glob"),
    ("modifiedBefore", "2000-01-01", "glob"),
    ("modifiedAfter", "2000-01-01", "max_file_age"),
    ("recursiveFileLookup", "false", "folder"),
    ("ignoreInvalidPartitionPaths", "true", "is not known"),
    ("path", "elsewhere.json", "path"),
    ("paths", "['elsewhere.json']", "path"),
    ("maxFilesPerTrigger", "1", "is not known"),
    ("orc.skip.corrupt.data", "true", "is not known"),
    ("mapreduce.input.linerecordreader.line.maxlength", "9", "is not known"),
    ("textinputformat.record.delimiter", "x", "is not known"),
    ("columnNameOfCorruptRecord", "bad", "refused"),
    ("basePath", "/landing", "partition_columns="),
]
OF_FORMAT = {
    "csv": [
        ("mode", "DROPMALFORMED", "leaves out rows"),
        ("comment", "#", "would be lost"),
        ("enforceSchema", "true", "header"),
        ("columnPruning", "false", "leave it out"),
        ("singleVariantColumn", "v", "schema"),
        ("skipRows", "1", "is not known"),
    ],
    "json": [
        ("mode", "dropMalformed", "leaves out rows"),
        ("samplingRatio", "0.1", "schema"),
        ("dropFieldIfAllNull", "true", "schema"),
        ("singleVariantColumn", "v", "schema"),
        ("header", "true", "is not known"),
    ],
    "parquet": [("mergeSchema", "false", "columns"), ("multiLine", "true", "one line"), ("sep", ";", "is not known")],
    "orc": [("mergeSchema", "FALSE", "columns"), ("orc.force.positional.evolution", "true", "is not known")],
    "avro": [
        ("ignoreExtension", "false", "whatever their names"),
        ("recursiveFieldMaxDepth", "2", "would be lost"),
        ("positionalFieldMatching", "true", "names"),
        ("mode", "DROPMALFORMED", "is not known"),
    ],
    "xml": [
        ("mode", "DROPMALFORMED", "leaves out rows"),
        ("excludeAttribute", "true", "Query"),
        ("samplingRatio", "0.1", "schema"),
        ("multiLine", "false", "one line"),
        ("rowValidationXSDPath", "a.xsd", "leave it out"),
    ],
    "debezium": [("wholetext", "true", "one event"), ("multiLine", "true", "one line"), ("mode", "DROPMALFORMED", "")],
}
LOSING = [(kind, *option) for kind in (*FORMATS, "debezium") for option in (*OF_FILES, *OF_FORMAT[kind])]
HARMLESS: dict[str, dict[str, object]] = {
    "csv": {
        "header": True,
        "sep": ";",
        "quote": "'",
        "escape": "\\",
        "nullValue": "-",
        "encoding": "UTF-16",
        "dateFormat": "'the hour 'd MMM yyyy",
        "timestampNTZFormat": "dd/MM/yyyy hh:mm:ss.SSSSSS a",
        "timestampFormat": "yyyy-MM-dd'z'HH:mm:ssXXX VV",
        "timeZone": "CET",
        "locale": "de-DE",
    },
    "json": {
        "multiLine": True,
        "allowComments": True,
        "timestampFormat": "yyyy",
        "timeZone": "America/Argentina/Buenos_Aires",
        "locale": "zh-Hant-TW-u-nu-latn",
        "dateFormat": "yyyyDDD",
        "mode": "PERMISSIVE",
    },
    "parquet": {"mergeSchema": True, "datetimeRebaseMode": "CORRECTED", "fs.s3a.endpoint": "http://minio:9000"},
    "orc": {"MERGESCHEMA": "true"},
    "xml": {"ROWTAG": "order", "attributePrefix": "@", "valueTag": "text", "ignoreNamespace": True},
    "avro": {"avroSchema": "{}"},
    "debezium": {"lineSep": "\n"},
}

PLACE = "the name of a place such as Europe/London, or an offset such as +02:00"
LANGUAGE = "a language tag such as de-DE, with a hyphen"
# Option, a value that Spark's reader would end with, and what it has to be.
UNFIT: list[tuple[str, str, object, str]] = [
    ("csv", "multiLine", 1, "true or false"),
    ("csv", "HEADER", "yes", "true or false"),
    ("csv", "ignoreLeadingWhiteSpace", " true", "true or false"),
    ("csv", "inferSchema", "", "true or false"),
    ("json", "allowComments", "on", "true or false"),
    ("xml", "ignoreNamespace", "no", "true or false"),
    ("parquet", "mergeSchema", "1", "true or false"),
    ("orc", "mergeSchema", "yes", "true or false"),
    ("avro", "enableStableIdentifiersForUnionType", 1, "true or false"),
    ("csv", "maxColumns", "many", "a whole number up to 2147483647"),
    ("csv", "maxCharsPerColumn", 1.5, "a whole number up to 2147483647"),
    ("csv", "maxCharsPerColumn", 2_147_483_648, "a whole number up to 2147483647"),
    ("csv", "quote", "''", "at most one character"),
    ("csv", "escape", "\\\\", "at most one character"),
    ("csv", "sep", "", "at least one character"),
    ("json", "lineSep", "", "at least one character"),
    ("csv", "dateFormat", "dd.MM.yyyy HH:mm", "a format without a time"),
    ("json", "DATEFORMAT", "yyyy-mm-dd", "a format without a time"),
    ("csv", "dateFormat", "EEE dd.MM.yyyy", "a format without E"),
    ("json", "timestampFormat", "YYYY-MM-dd HH:mm", "a format without Y"),
    ("csv", "enableDateTimeParsingFallback", True, "false"),
    ("xml", "dateFormat", "dd.MM.", "a format with the year"),
    ("csv", "timestampFormat", "HH:mm", "a format with the year"),
    ("json", "timestampNTZFormat", "'year 'HH", "a format with the year"),
    ("csv", "timestampFormat", "yyyy-mm-dd", "a format with the month"),
    ("csv", "timestampFormat", "dd/MM/yyyy hh:mm", "a format with HH, or with hh and a"),
    ("csv", "timestampFormat", "yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]", "a format of at most 6 S"),
    # Java reads BST as Bougainville's time, and the name of Britain's summer time as UTC.
    ("csv", "timestampFormat", "yyyy-MM-dd HH:mm:ss z", "a format without z"),
    ("json", "timestampFormat", "dd MMM yyyy HH:mm zzzz", "a format without z"),
    ("json", "timestampFormat", "dd MMM yyyy HH:mm v", "a format without v"),
    ("csv", "timeZone", "BST", PLACE),
    ("json", "TIMEZONE", "PST", PLACE),
    ("xml", "timeZone", "", PLACE),
    # Java takes each of these for no language: 1.500 would be one and a half.
    ("csv", "locale", "de_DE", LANGUAGE),
    ("json", "locale", "german", LANGUAGE),
    ("csv", "locale", "de_DE.UTF-8", LANGUAGE),
    ("xml", "LOCALE", "", LANGUAGE),
]


def files_of(kind: str, options: dict[str, object]) -> Source:
    if kind == "debezium":
        return Debezium("in/*", table="t", options=options)
    return Files(
        "in/*", kind, options={**({"rowTag": "r"} if kind == "xml" and "ROWTAG" not in options else {}), **options}
    )


@pytest.mark.parametrize(("kind", "option", "value", "said"), LOSING)
def test_an_option_that_may_lose_rows_or_files_is_refused_by_name_in_any_case(
    kind: str, option: str, value: str, said: str
) -> None:
    for spelled in (option, option.upper(), option.lower()):
        with pytest.raises(InvalidSpecError, match=rf"options.*{spelled}") as error:
            files_of(kind, {spelled: value})
        assert said in str(error.value)


@pytest.mark.parametrize("kind", HARMLESS)
def test_options_that_lose_nothing_are_taken(kind: str) -> None:
    found = files_of(kind, dict(HARMLESS[kind])).files
    assert found is not None
    assert len(found.options) == len(HARMLESS[kind])


def test_an_option_is_refused_in_a_mapping_below_a_query_and_beside_a_template() -> None:
    losing = {"ignoreCorruptFiles": True}
    givens: tuple[Callable[[], Source], ...] = (
        lambda: source({"type": "files", "path": "in/*.csv", "options": losing}),
        lambda: Query("SELECT * FROM source", over={"type": "files", "path": "in/*.csv", "options": losing}),
        lambda: Files("in/{{ ds }}/*.csv", options=losing),
        lambda: source({"type": "debezium", "path": "{{ path }}", "table": "t", "options": losing}),
    )
    for given in givens:
        with pytest.raises(InvalidSpecError, match="ignoreCorruptFiles"):
            given()


def test_beside_a_templated_path_an_option_of_any_format_is_taken_until_the_format_is_known() -> None:
    written = Files("in/{{ ds }}/*.csv", options={"header": True})
    rendered = {"csv": written.rendered(lambda _: "in/1/*.csv"), "json": written.rendered(lambda _: "in/1/*.json")}
    assert rendered["csv"].checked().format == "csv"
    with pytest.raises(InvalidSpecError, match="'header'"):
        rendered["json"].checked()


def test_a_value_that_a_template_gives_is_checked_once_it_is_rendered() -> None:
    written = Files("in/*.csv", options={"mode": "{{ mode }}"})
    rendered = written.rendered(lambda _: {"mode": "DROPMALFORMED"})
    with pytest.raises(InvalidSpecError, match="leaves out rows"):
        rendered.checked()


def test_an_option_that_is_given_twice_in_two_cases_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match="twice"):
        Files("in/*.csv", options={"header": "true", "HEADER": "false"})


def test_an_option_with_a_blank_in_its_name_is_refused_which_spark_would_not_see() -> None:
    for name in ("header ", " header"):
        with pytest.raises(InvalidSpecError, match=f"the option '{name}' is not known"):
            Files("in/*.csv", options={name: "true"})


# Format, options, and a word of the refusal; empty where they are taken.
ENCODINGS: list[tuple[str, dict[str, Any], str]] = [
    *(("csv", {"encoding": name}, "") for name in ("utf8", "UTF-16", "latin1", "windows-1252", "KOI8-R", "EUC-JP")),
    *(("csv", {"encoding": name}, "") for name in ("Shift_JIS", "GB18030", "Big5", "windows-1251", "cp850", "EUC-KR")),
    *(("json", {"charset": name}, "") for name in ("windows-1252", "UTF-16LE", "EUC-KR")),
    # The second byte of a letter may be that of |, and of a backslash.
    *(("csv", {"encoding": name, "sep": "|"}, "multiLine") for name in ("Shift_JIS", "GBK", "Big5")),
    *(("csv", {"encoding": name, "escape": "\\"}, "multiLine") for name in ("Shift_JIS", "GB18030")),
    ("csv", {"encoding": "Shift_JIS", "sep": "|", "multiLine": True}, ""),
    *(("json", {"encoding": name}, "UTF-8") for name in ("Shift_JIS", "GBK", "Big5", "GB18030")),
    *((kind, {"encoding": "ISO-2022-JP"}, "UTF-8") for kind in ("csv", "json")),
    *((kind, {"encoding": "cp037"}, "UTF-8") for kind in ("csv", "json")),
    *((kind, {"encoding": name}, "windows-1252") for kind in ("csv", "json") for name in ("idna", "undefined", "a\0b")),
    *((kind, {"encoding": "latn1"}, "windows-1252") for kind in ("csv", "json", "xml")),
]


@pytest.mark.parametrize(("kind", "options", "said"), ENCODINGS)
def test_an_encoding_is_taken_where_no_byte_of_a_letter_can_be_taken_for_a_sign(
    kind: str, options: dict[str, Any], said: str
) -> None:
    if not said:
        files_of(kind, options)
        return
    with pytest.raises(InvalidSpecError, match=r"options: .*encoding|options: in ") as refused:
        files_of(kind, options)
    assert said in str(refused.value)


def test_xml_without_the_element_that_is_a_record_is_refused() -> None:
    assert Files("in/*.xml", options={"rowtag": "order"}).format == "xml"
    for options in ({}, {"rowTag": " "}):
        with pytest.raises(InvalidSpecError, match="rowTag"):
            Files("in/*.xml", options=options)


def test_a_record_of_xml_has_no_prefix_where_namespaces_are_ignored() -> None:
    options = {"rowTag": "shop:order"}
    for others in (options, {**options, "ignoreNamespace": False}):
        assert Files("in/*.xml", options=others).format == "xml"
    for ignoring in ({**options, "ignoreNamespace": True}, {**options, "IGNORENAMESPACE": "TRUE"}):
        with pytest.raises(InvalidSpecError, match="no element is called 'shop:order'; give rowTag='order'"):
            Files("in/*.xml", options=ignoring)


@pytest.mark.parametrize(("version", "is_refused"), [("3.5", True), ("3.5.9", True), ("4.1", False), ("4.1.3", False)])
def test_xml_is_refused_on_a_spark_that_does_not_read_it_also_below_a_query(version: str, is_refused: bool) -> None:
    xml = Files("in/*.xml", options={"rowTag": "order"})
    named = {"days": Files("in/*.csv"), "orders": xml}
    for given in (xml, Query("SELECT * FROM source", over=xml), Query("SELECT * FROM orders", over=named)):
        if not is_refused:
            given.refuse_spark(version)
            continue
        with pytest.raises(UnsupportedError, match=rf"XML, which Spark {version} does not read; .*JSON lines"):
            given.refuse_spark(version)
    Files("in/*.csv").refuse_spark(version)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("day", "list"),
        (["day", "DAY"], "twice"),
        (["day=1"], "without value"),
        (["a/b"], "without value"),
        ([""], "list"),
    ],
)
def test_names_of_folders_are_names_alone(given: object, said: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"partition_columns.*{said}"):
        Files("in/*.csv", partition_columns=given)  # type: ignore[arg-type]  # what it must not be
    assert Files("in/*.csv", partition_columns=["day", "region"]).partition_columns == ("day", "region")


@pytest.mark.parametrize(("kind", "option", "value", "expected"), UNFIT)
def test_a_value_that_no_reader_takes_is_refused_before_spark_starts(
    kind: str, option: str, value: object, expected: str
) -> None:
    with pytest.raises(InvalidSpecError, match=rf"options: {option} must be {re.escape(expected)}, got"):
        files_of(kind, {option: value})


@pytest.mark.parametrize("value", ["TRUE", "False", True])
def test_a_flag_may_be_in_any_case(value: object) -> None:
    numbers = {"maxCharsPerColumn": -1, "maxColumns": 2_147_483_647}
    files_of("csv", {"header": value, "quote": "", "escape": "\\", **numbers})
