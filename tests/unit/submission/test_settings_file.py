"""The settings file: Java reads what was given, and the author's own file wins."""

from __future__ import annotations

import stat
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.submission.private_folder import write_private
from airflow_lake_provider.submission.properties_file import properties_text
from tests.unit.submission import java_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@settings(deadline=None)
@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_java_reads_every_setting_as_it_was_given(settings: dict[str, str]) -> None:
    assert java_properties.load(properties_text(settings)) == settings


def test_signs_that_mean_something_to_java_come_through_the_file(tmp_path: Path) -> None:
    settings = {
        "a b=c:d#!": r"C:\temp\new",
        "#k": "  two",
        "ü": "söß 雪 \U0001f40d",
        "t": "\ttab",
        "n": "a\nb\r\f=:#!\\",
    }
    file = tmp_path / "spark.properties"
    write_private(file, properties_text(settings).encode())
    assert java_properties.load(file.read_bytes().decode("utf-8")) == settings
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_authors_file_is_taken_over_as_it_is_and_wins(tmp_path: Path) -> None:
    author = tmp_path / "author.properties"
    author.write_text("# mine\nspark.a : author\nspark.c=\\u00fc", encoding="utf-8")
    text = properties_text({"spark.a": "ours", "spark.b": "ours"}, str(author))
    assert text.endswith(author.read_text(encoding="utf-8"))
    assert java_properties.load(text) == {"spark.a": "author", "spark.b": "ours", "spark.c": "ü"}
