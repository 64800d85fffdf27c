"""The page of trust lists what the code accepts, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_lake_provider.contracts import untrusted_properties as rules

_PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "trust.md").read_text()
_FROM, _TO = "### Of a REST server", "### Of a table"


def accepted() -> set[str]:
    stores = rules.STORES.values()
    named = {name for store in stores for name in (*store.credentials, *store.endpoints)}
    named |= {
        *rules.HARMLESS,
        *rules.HARMLESS_PREFIXES,
        *rules.REGIONS,
        *rules.WAITS,
        *rules.OF_THE_CATALOG,
        *rules.CODE,
    }
    values = {value for of_property in rules.CODE.values() for value in of_property}
    return {f"{name}*" if name.endswith((".", "cache", ":")) else name for name in named | values} | {
        "oauth2-server-uri"
    }


def test_the_page_of_trust_lists_what_counts() -> None:
    part = _PAGE[_PAGE.index(_FROM) : _PAGE.index(_TO)]
    rows = "".join(line for line in part.splitlines(keepends=True) if line.startswith("|"))
    assert set(re.findall("`([^`]+)`", rows)) == accepted()


def test_the_page_of_trust_lists_what_of_a_table_chooses_code() -> None:
    part = _PAGE[_PAGE.index("| a name that |") : _PAGE.index("Properties that begin with")]
    patterns = re.findall("`([^`]+)`", part)
    ends = [each[1:] for each in patterns if each.startswith("*")]
    begins = [each[:-1] for each in patterns if each.endswith("*")]
    assert ends
    assert begins
    tried = [*(f"write.location{end}" for end in ends), *(f"{begin}x" for begin in begins)]
    assert set(rules.code_properties(dict.fromkeys(tried, "x"))) == set(tried)
    assert {*rules._HADOOP, *rules._KEYS} == set(begins) | {"client.credentials-provider"}
