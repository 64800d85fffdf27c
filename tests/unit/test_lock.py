"""The locks are whole: every file has its hash, and the versions are those that the package asks for."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from airflow_lake_provider.catalogs import spark_catalog_properties

REPOSITORY = Path(__file__).parents[2]
LOCK = (REPOSITORY / "requirements.lock").read_text()
EXTRAS_IN_THE_LOCK = ("sqlite", "postgres", "hive", "openlineage", "docs", "dev")


def entries() -> list[str]:
    """Return each entry of the lock in one line: requirement, marker, hashes."""
    lines = [line for line in LOCK.replace("\\\n", " ").splitlines() if line and not line.lstrip().startswith("#")]
    return [re.sub(r"\s+", " ", line) for line in lines]


def pinned(python: str) -> dict[str, Version]:
    """Return what the lock installs for a version of Python on Linux."""
    full = default_environment() | {"python_version": python, "python_full_version": f"{python}.0"}
    environment = {name: str(value) for name, value in full.items()}
    found = [Requirement(entry.split(" --hash")[0]) for entry in entries()]
    chosen = [each for each in found if each.marker is None or each.marker.evaluate(environment)]
    assert len(chosen) == len({each.name for each in chosen}), "two versions of one package"
    return {canonicalize_name(each.name): Version(str(each.specifier).removeprefix("==")) for each in chosen}


def required() -> list[Requirement]:
    """Return what setup.cfg asks for: install_requires and the extras in the lock, without the package itself."""
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    texts = [parser["options"]["install_requires"]]
    texts += [parser["options.extras_require"][extra] for extra in EXTRAS_IN_THE_LOCK]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return [each for each in map(Requirement, lines) if each.name != parser["metadata"]["name"]]


def test_every_entry_is_an_exact_version_with_hashes() -> None:
    assert [entry for entry in entries() if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)] == []


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_satisfies_setup_cfg(python: str) -> None:
    versions = pinned(python)
    unmet = [str(each) for each in required() if versions.get(canonicalize_name(each.name)) not in Pin(each)]
    assert unmet == []


def test_the_page_of_versions_has_the_bounds_of_setup_cfg() -> None:
    page = (REPOSITORY / "docs/reference/versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \| `([^`]+)` \|", page, re.MULTILINE)
    listed = {name: SpecifierSet(bounds) for names, bounds in rows for name in re.findall(r"`([^`]+)`", names)}
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    lines = [line for line in parser["options"]["install_requires"].splitlines() if line.strip()]
    assert listed == {each.name: each.specifier for each in map(Requirement, lines)}


class Pin:
    """Membership of a version in a requirement; a package that is not there is no member."""

    def __init__(self, requirement: Requirement) -> None:
        self.specifier = requirement.specifier

    def __contains__(self, version: Version | None) -> bool:
        return version is not None and self.specifier.contains(version)


def test_pyspark_and_pyspark_client_are_one_version() -> None:
    # Both install into one folder: two versions overwrite parts of each other.
    versions = pinned("3.11")
    assert versions["pyspark"] == versions["pyspark-client"]


def test_the_lock_names_no_address_and_no_folder() -> None:
    assert re.findall(r"https?://\S+|--(?:extra-)?index-url|--find-links|file:", LOCK) == []
    assert re.findall(r"(?m)^#.*(?<![\w.])/\w+", LOCK) == []


@pytest.mark.parametrize(
    ("lock", "release"), [("jars.lock", ("4.1", "2.13")), ("jars-spark-3.5.lock", ("3.5", "2.12"))]
)
def test_the_jars_are_those_that_the_package_asks_spark_for(lock: str, release: tuple[str, str]) -> None:
    text = (REPOSITORY / "scripts" / lock).read_text()
    locked = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert locked.keys() == {
        spark_catalog_properties.RUNTIMES[release],
        spark_catalog_properties.SQLITE_DRIVER,
        spark_catalog_properties.POSTGRESQL_DRIVER,
    }
    assert [each for each in locked.values() if not re.fullmatch("[0-9a-f]{64}", each)] == []


def test_the_spark_that_comes_with_the_package_is_the_one_whose_runtime_is_taken_by_default() -> None:
    pinned_spark = pinned("3.11")["pyspark"]
    spark = f"{pinned_spark.major}.{pinned_spark.minor}"
    assert spark_catalog_properties.RUNTIMES[spark, "2.13"] == spark_catalog_properties.SPARK_RUNTIME
