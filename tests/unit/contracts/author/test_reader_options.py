"""Options of Spark's readers: what leaves out rows, columns or files is refused by name while a DAG is parsed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_lake_provider.contracts.author.reader_options import FORMATS
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Query, Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError

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
    "debezium": [("wholetext", "true", "one event"), ("multiLine", "true", "one line"), ("mode", "DROPMALFORMED", "")],
}
LOSING = [(kind, *option) for kind in (*FORMATS, "debezium") for option in (*OF_FILES, *OF_FORMAT[kind])]
HARMLESS: dict[str, dict[str, object]] = {
    "csv": {"header": True, "sep": ";", "quote": "'", "escape": "\\", "nullValue": "-", "encoding": "UTF-16"},
    "json": {
        "multiLine": True,
        "allowComments": True,
        "timestampFormat": "yyyy",
        "mode": "PERMISSIVE",
        "basePath": "/",
    },
    "parquet": {"mergeSchema": True, "datetimeRebaseMode": "CORRECTED", "fs.s3a.endpoint": "http://minio:9000"},
    "orc": {"MERGESCHEMA": "true", "basePath": "/in"},
    "avro": {"avroSchema": "{}"},
    "debezium": {"lineSep": "\n"},
}


def files_of(kind: str, options: dict[str, object]) -> Source:
    return Debezium("in/*", table="t", options=options) if kind == "debezium" else Files("in/*", kind, options=options)


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
