"""Every catalog and store that the documentation names has its extra, and each extra is one that its package offers."""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from airflow_lake_provider.catalogs.property_translation import KINDS
from airflow_lake_provider.catalogs.warehouse import FILE_IO
from scripts.markdown_pages import documents

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/reference/connection.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/getting-started.md", "docs/how-to/connection.md", "docs/reference/connection.md")
NONE = "none"

# By family of PyIceberg's properties: the extra that brings its client.
FAMILIES = {
    "s3": "s3",
    "gcs": "gcs",
    "adls": "azure",
    "hdfs": NONE,
    "glue": "glue",
    "rest.sigv4": "rest-sigv4",
    # Of every kind of store or catalog, or of a plain REST catalog.
    **dict.fromkeys(("client", "rest", "header", ""), NONE),
}
BY_KIND = {"rest": NONE, "sql": "sqlite", "hive": "hive", "glue": "glue"}
BY_SCHEME = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    "gs": "gcs",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
    **dict.fromkeys(("file", "hdfs", "viewfs"), NONE),
}


def extras() -> dict[str, list[Requirement]]:
    """Return the extras of setup.cfg."""
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return {
        name: [Requirement(line) for line in text.splitlines() if line.strip()]
        for name, text in parser["options.extras_require"].items()
    }


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    below = PAGE.split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[0].splitlines()[2:]]


def documented() -> set[str]:
    """Return the extras of the page's table."""
    return {cell.strip("`") for _, cell in table("## Extras to install")}


def family(property_name: str) -> str:
    """Return what a property begins with, where that tells a catalog or a store."""
    known = [name for name in FAMILIES if name and property_name.startswith(f"{name}.")]
    known += [name for name in FAMILIES if name and property_name.startswith(f"{name}-")]
    return max(known, key=len) if known else property_name.rpartition(".")[0].partition(".")[0]


def properties() -> list[str]:
    """Return the properties that the page names for PyIceberg."""
    rows = re.findall(r"^\| (.+?) \| .+ \|$", PAGE.split("## Extras to install", 1)[0], re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_property_of_the_page_belongs_to_a_catalog_or_store_with_its_extra() -> None:
    named = {name: family(name) for name in properties()}
    assert len(named) > 40
    assert {name: of for name, of in named.items() if of not in FAMILIES} == {}
    assert {FAMILIES[of] for of in named.values()} - documented() == set()


def test_every_catalog_and_store_of_the_connection_has_its_extra() -> None:
    assert set(BY_KIND) == set(KINDS)
    assert set(BY_SCHEME) == set(FILE_IO)
    assert {*BY_KIND.values(), *BY_SCHEME.values(), "postgres"} <= documented()


def test_every_documented_extra_is_in_setup_cfg_and_the_other_way_round() -> None:
    of_developers = {"docs", "dev"}
    assert documented() - {NONE} == extras().keys() - of_developers


def test_every_extra_is_one_that_its_package_offers() -> None:
    unknown = [
        f"{name}: {requirement}"
        for name, requirements in extras().items()
        for requirement in requirements
        if requirement.name in ("pyiceberg", "apache-airflow-providers-apache-spark")
        and not requirement.extras <= set(metadata(requirement.name).get_all("Provides-Extra", []))
    ]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_installs_only_extras_that_exist(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    asked = {name for found in re.findall(r'pip install "[^"\[]*\[([^\]]+)\]"', text) for name in found.split(",")}
    assert asked - extras().keys() == set()


def test_no_page_installs_from_a_registry_what_was_never_released() -> None:
    # README says so: the package is installed from the clone.
    assert "0.1.0, not released" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    asking = re.compile(r"pip install [\"']?airflow-lake-provider")
    assert [page.name for page in documents() if asking.search(page.read_text(encoding="utf-8"))] == []
