"""Each side of the package imports only what it may: the table of docs/architecture.md, held by the syntax trees.

Function bodies, ``TYPE_CHECKING`` blocks and literal ``import_module`` calls count: none is a way around the law.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.package_imports import (
    ARCHITECTURE,
    MODULES,
    OURS,
    PACKAGE,
    REPOSITORY,
    SPARK_SIDE,
    dotted,
    imported_modules,
)

PLAIN_SIDES = {"contracts", "catalogs", "submission"}
# The address of a SQL catalog is what SQLAlchemy reads in it.
CATALOG_LIBRARIES = {"sqlalchemy"}
# What a worker decides with: rules over facts, for each format. A format's own folder has its rules, and the library
# that reads and writes it.
RULES_SIDES = {"tables", "planning", "maintenance"}
FORMAT_SIDE = "tables.iceberg"
# Whoever opens catalogs, and gives out their tables.
OPENING_SIDE = "hooks"
# Pages read Airflow's database, and never a catalog.
PAGE_SIDE = "plugins"
# Rules of a format that both sides ask: over facts, without a library that reads tables.
SHARED_RULES = "iceberg"

# py4j is pyspark's own bridge to the JVM and comes with it.
SPARK_LIBRARIES = {"pyspark", "py4j", "pyarrow", "numpy"}
# PyIceberg's filter parser answers a bad text with an exception of pyparsing.
FORMAT_LIBRARIES = {"pyiceberg", "pyparsing", "pyarrow", "fsspec"}
# Reports of drivers lie where fsspec reaches.
AIRFLOW_LIBRARIES = {"airflow", "fsspec"}
# SQLAlchemy is under Airflow and PyIceberg's SqlCatalog alike; its errors have to be caught by name. PyIceberg's REST
# catalog sends with requests, which is on urllib3, and reads answers with pydantic. A file of policies is YAML.
OPENING_LIBRARIES = {"airflow", "pyiceberg", "sqlalchemy", "requests", "urllib3", "pydantic", "yaml"}


# Those of Airflow's own api-server, which all come with it.
PAGE_LIBRARIES = {"airflow", "fastapi", "jinja2", "sqlalchemy"}

# A library of an extra: one module may import it, where it is called, so that all others work without it.
OF_AN_EXTRA = {
    "confluent_kafka": "hooks/topic_end.py",
    "openlineage": "operators/openlineage.py",
    "botocore": "hooks/bounded_catalogs/glue_catalog.py",
    "thrift": "hooks/bounded_catalogs/hive_catalog.py",
    "google": "spark_jobs/sources/kafka/protobuf_messages.py",
}


def side_of(module: str) -> str:
    """Return the folder of ours that a dotted name or a relative path lies in; empty for the package's own files."""
    parts = module.split(".")
    if ".".join(parts[1:3]) == FORMAT_SIDE:
        return FORMAT_SIDE
    return parts[1] if len(parts) > 1 else ""


def side_of_file(source: Path) -> str:
    """Return the folder of ours that a file lies in; empty for files directly in the package."""
    parts = source.relative_to(PACKAGE).parts
    return side_of(dotted(source)) if len(parts) > 1 else ""


def may_import(side: str) -> tuple[set[str], set[str] | None]:
    """Return the outside libraries and our own folders that a side may import; None: all but a format's and Spark's."""
    if side in PLAIN_SIDES or side == SHARED_RULES:
        return CATALOG_LIBRARIES if side == "catalogs" else set(), {"contracts", side}
    if side in RULES_SIDES:
        return set(), {"contracts", "tables", side}
    if side == FORMAT_SIDE:
        return FORMAT_LIBRARIES, {"contracts", SHARED_RULES, "tables", side}
    if side == OPENING_SIDE:
        return OPENING_LIBRARIES, None
    if side == PAGE_SIDE:
        return PAGE_LIBRARIES, {"contracts", "maintenance", "tables", side}
    if side == SPARK_SIDE:
        return SPARK_LIBRARIES, {"contracts", SHARED_RULES, SPARK_SIDE}
    return AIRFLOW_LIBRARIES, None


def offences(side: str, imported: Iterator[str]) -> list[str]:
    """Return the imports that a side may not make."""
    libraries, folders = may_import(side)
    found = []
    for name in imported:
        root = name.split(".")[0]
        if root == OURS:
            target = side_of(name)
            closed = {SPARK_SIDE} if side == OPENING_SIDE else {SPARK_SIDE, FORMAT_SIDE}
            allowed = target not in closed if folders is None else target in folders or target == "__version__"
        else:
            allowed = root in libraries or root in sys.stdlib_module_names
        if not allowed:
            found.append(name)
    return found


@pytest.mark.parametrize("source", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_side_may(source: Path) -> None:
    tree = ast.parse(source.read_text())
    of_extras = {name for name, only in OF_AN_EXTRA.items() if source == PACKAGE / only}
    imported = (name for name in imported_modules(tree) if name.split(".")[0] not in of_extras)
    assert offences(side_of_file(source), imported) == []


def test_a_library_of_an_extra_is_missed_by_no_module(tmp_path: Path) -> None:
    modules = [dotted(source) for source in MODULES if side_of_file(source) != SPARK_SIDE]
    assert_imports_without([*OF_AN_EXTRA, "airflow.providers.openlineage.extractors"], modules, tmp_path)


@pytest.mark.parametrize(
    ("side", "code", "offence"),
    [
        ("contracts", "import pyarrow", "pyarrow"),
        ("contracts", f"from {OURS}.iceberg.table_obstacles import without_spark", f"{OURS}.iceberg.table_obstacles"),
        ("iceberg", "import pyiceberg", "pyiceberg"),
        ("iceberg", f"from {OURS}.tables.base import LoadedTable", f"{OURS}.tables.base"),
        ("submission", "from airflow.sdk import conf", "airflow.sdk"),
        ("catalogs", f"from {OURS}.hooks.lake_catalog import LakeCatalogHook", f"{OURS}.hooks.lake_catalog"),
        ("spark_jobs", "import airflow", "airflow"),
        ("spark_jobs", f"from {OURS} import submission", f"{OURS}.submission"),
        ("tables", "import airflow.sdk", "airflow.sdk"),
        ("tables", "from pyiceberg.table import Table", "pyiceberg.table"),
        ("tables", f"from {OURS}.tables.iceberg import live_files", f"{OURS}.tables.iceberg"),
        ("tables.iceberg", f"from {OURS}.planning import metadata_changes", f"{OURS}.planning"),
        ("tables", f"from {OURS} import iceberg", f"{OURS}.iceberg"),
        ("planning", f"from {OURS}.iceberg.streaming_writers import recent", f"{OURS}.iceberg.streaming_writers"),
        ("planning", "if TYPE_CHECKING:\n    from pyiceberg.table import Table", "pyiceberg.table"),
        ("planning", f"from {OURS}.tables.iceberg.live_files import read_files", f"{OURS}.tables.iceberg.live_files"),
        ("planning", f"from {OURS}.tables import iceberg", f"{OURS}.tables.iceberg"),
        ("planning", f"from {OURS}.hooks import lake_catalog", f"{OURS}.hooks"),
        ("maintenance", "from airflow.sdk import conf", "airflow.sdk"),
        ("maintenance", f"from {OURS}.hooks import lake_catalog", f"{OURS}.hooks"),
        ("operators", "if TYPE_CHECKING:\n    from pyiceberg.table import Table", "pyiceberg.table"),
        (
            "triggers",
            f"def late():\n    import {OURS}.tables.iceberg.loaded_table",
            f"{OURS}.tables.iceberg.loaded_table",
        ),
        ("operators", "def late():\n    import pyspark.sql", "pyspark.sql"),
        ("operators", f"if TYPE_CHECKING:\n    from {OURS}.spark_jobs import session", f"{OURS}.spark_jobs"),
        ("hooks", "importlib.import_module('pyspark')", "pyspark"),
        ("plugins", f"from {OURS}.hooks.lake_catalog import LakeCatalogHook", f"{OURS}.hooks.lake_catalog"),
        ("plugins", "from pyiceberg.catalog import load_catalog", "pyiceberg.catalog"),
        ("triggers", "import pandas", "pandas"),
        ("", "import pyspark", "pyspark"),
    ],
)
def test_the_law_sees_an_offence_wherever_it_hides(side: str, code: str, offence: str) -> None:
    assert offences(side, imported_modules(ast.parse(code))) == [offence]


def test_the_architecture_page_names_the_libraries_that_each_side_may_import() -> None:
    rows = dict(re.findall(r"^\| (?:`([\w/]+)/`|everything else) \| (.+?) \|", ARCHITECTURE.read_text(), re.MULTILINE))
    sides = {side: side.replace(".", "/") for side in (*PLAIN_SIDES, SHARED_RULES, *RULES_SIDES)}
    sides |= {side: side.replace(".", "/") for side in (FORMAT_SIDE, OPENING_SIDE, PAGE_SIDE, SPARK_SIDE)} | {"": ""}
    of_side = {side: set(may_import(side)[0]) for side in sides}
    for library, module in OF_AN_EXTRA.items():
        of_side[side_of_file(PACKAGE / module) if side_of_file(PACKAGE / module) in sides else ""].add(library)
    every = set().union(*of_side.values())
    assert {side: set(re.findall(r"\w+", rows[page].lower())) & every for side, page in sides.items()} == of_side


def test_all_modules_outside_spark_jobs_import_where_there_is_no_pyspark(tmp_path: Path) -> None:
    modules = [dotted(source) for source in MODULES if side_of_file(source) != SPARK_SIDE]
    assert_imports_without(["pyspark", "py4j"], modules, tmp_path)


def test_the_drivers_side_imports_where_there_is_no_airflow(tmp_path: Path) -> None:
    modules = [dotted(source) for source in MODULES if side_of_file(source) in {*PLAIN_SIDES, SHARED_RULES, SPARK_SIDE}]
    assert_imports_without(["airflow", "pyiceberg", "fsspec", "tenacity", "rich"], modules, tmp_path)


def assert_imports_without(missing: list[str], modules: list[str], airflow_home: Path) -> None:
    """Import ``modules`` in an interpreter where each of ``missing`` is an ImportError."""
    code = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        f"for module in {modules!r}:\n"
        "    importlib.import_module(module)\n"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(airflow_home), "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]


def test_a_format_knows_the_seam_and_not_who_chooses_it() -> None:
    iceberg = PACKAGE / SPARK_SIDE / "formats" / "iceberg"
    imported = {name for source in iceberg.rglob("*.py") for name in imported_modules(ast.parse(source.read_text()))}
    assert f"{OURS}.{SPARK_SIDE}.formats.base" in imported
    assert f"{OURS}.{SPARK_SIDE}.formats.choose_format" not in imported


SOURCES = PACKAGE / SPARK_SIDE / "sources"
ENVELOPES = SOURCES / "envelopes"


def envelopes_in(source: Path) -> set[str]:
    """Return the envelopes that a file imports."""
    prefix = dotted(ENVELOPES / "__init__.py") + "."
    imported = imported_modules(ast.parse(source.read_text()))
    return {name.removeprefix(prefix).split(".")[0] for name in imported if name.startswith(prefix)}


def test_an_envelope_is_imported_by_no_other_code_and_found_by_its_readers_name() -> None:
    outside = [source for source in MODULES if not source.is_relative_to(ENVELOPES)]
    assert [str(source) for source in outside if envelopes_in(source)] == []


def test_an_envelope_imports_no_other_one() -> None:
    others = {
        str(source): envelopes_in(source) - {source.relative_to(ENVELOPES).parts[0].removesuffix(".py")}
        for source in MODULES
        if source.is_relative_to(ENVELOPES)
    }
    assert {source: names for source, names in others.items() if names} == {}


def words_of(tree: ast.AST) -> Iterator[str]:
    """Yield the names and texts of code, without its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in docstrings:
            yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))


def connectors_in(tree: ast.AST) -> list[str]:
    """Return the words of code that name a connector."""
    return [word for word in words_of(tree) if "debezium" in word.lower()]


@pytest.mark.parametrize("source", sorted((SOURCES / "cdc").glob("*.py")), ids=lambda path: path.stem)
def test_what_every_change_stream_needs_names_no_connector(source: Path) -> None:
    assert (connectors_in(ast.parse(source.read_text())), "debezium" in source.stem) == ([], False)


def test_a_name_of_a_connector_is_seen_in_code_and_not_in_a_docstring() -> None:
    code = '"""Debezium."""\nfrom a.debezium import b\ndef debezium_key(): return f"of Debezium {b}"'
    assert len(connectors_in(ast.parse(code))) == 3
