"""Properties files, read as Java reads them; what Java makes of each text was taken from its own ``Properties``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.submission.properties_file import properties_text, read_properties

TEXTS = [
    ("a=b", {"a": "b"}),
    ("a:b\nc d\ne = f\n g\t:  h i \n", {"a": "b", "c": "d", "e": "f", "g": "h i"}),
    ("# c:\\conf\\\na=b", {"a": "b"}),
    ("!x\\\r\na=b\r\n", {"a": "b"}),
    ("a=b,\\\n  # c,\\\n\td\ne=f", {"a": "b,# c,d", "e": "f"}),
    ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=b\\", {"a": "b"}),
    ("p=org.postgresql\\:postgresql\\:42.7.3", {"p": "org.postgresql:postgresql:42.7.3"}),
    ("a\\ b\\=c=d\\=e\\qf", {"a b=c": "d=eqf"}),
    ("a=\\u00e9\\ud83d\\ude00\\tb\\nc", {"a": "\u00e9\U0001f600\tb\nc"}),
    ("a", {"a": ""}),
    ("=b", {"": "b"}),
    ("a==b", {"a": "=b"}),
    ("a=b\na=c", {"a": "c"}),
    ("a=x\u2028b=c\x0b", {"a": "x\u2028b=c"}),
    ("\n \t\n#\n!\n", {}),
]


@pytest.mark.parametrize(("text", "settings"), TEXTS)
def test_a_text_has_the_settings_that_java_reads_in_it(text: str, settings: dict[str, str]) -> None:
    assert read_properties(text) == settings


SIGNS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(SIGNS, SIGNS.map(lambda value: f"x{value}x")))
def test_settings_that_are_written_for_java_are_read_again(settings: dict[str, str]) -> None:
    assert read_properties(properties_text(settings)) == settings
