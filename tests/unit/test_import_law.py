"""Each side of the package imports only what it may: the table of docs/architecture.md, held by the syntax trees.

Function bodies, ``TYPE_CHECKING`` blocks and literal ``import_module`` calls count: none is a way around the law.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_lake_provider"
OURS = PACKAGE.name
MODULES = sorted(PACKAGE.rglob("*.py"))

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
SPARK_SIDE = "spark_jobs"
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
}


def side_of(module: str) -> str:
    """Return the folder of ours that a dotted name or a relative path lies in; empty for the package's own files."""
    parts = module.split(".")
    if ".".join(parts[1:3]) == FORMAT_SIDE:
        return FORMAT_SIDE
    return parts[1] if len(parts) > 1 else ""


def dotted(source: Path) -> str:
    """Return the module name of a file."""
    parts = source.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything a tree imports, wherever in the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from imported_from(node)
        elif isinstance(node, ast.Call) and called_name(node) in {"import_module", "__import__"}:
            yield from (str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant))


def imported_from(node: ast.ImportFrom) -> Iterator[str]:
    """Yield what a ``from`` import names; ``from airflow_lake_provider import x`` names the folder x."""
    assert node.level == 0, "a relative import hides which side it reaches"
    assert node.module is not None
    if node.module in (OURS, f"{OURS}.tables"):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    else:
        yield node.module


def called_name(node: ast.Call) -> str:
    """Return the last name of what a call calls."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


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
        ("tables.iceberg", f"from {OURS}.planning import tag_plan", f"{OURS}.planning"),
        ("tables", f"from {OURS} import iceberg", f"{OURS}.iceberg"),
        ("planning", f"from {OURS}.iceberg.flink_jobs import recent", f"{OURS}.iceberg.flink_jobs"),
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


# Each side from the ground up: who is on a floor may import what is on the floors below, and nothing else but
# its own folder.
WORKER_FLOORS = (
    {"contracts"},
    {"catalogs", "iceberg", "submission"},
    {"tables"},
    {"maintenance"},
    {"hooks", "planning"},
    {"triggers"},
    {"assets"},
    {"operators"},
    {"cli", "plugins", "sensors"},
)
DRIVER_FLOORS = (
    {"jvm"},
    {"failures", "progress", "session"},
    {"retry_conflicts", "sql"},
    {"batch"},
    {"formats"},
    {"read_changes", "sources"},
    {"actions"},
    {"run_tasks"},
    {"run_job"},
)
ICEBERG_FLOORS = (
    {"jvm"},
    {"table"},
    {"rows"},
    {"commits"},
    {"appends", "incremental", "maintenance", "row_changes", "upserts"},
    {"overwrites"},
    {"iceberg_format"},
)
CONTRACT_FLOORS = (
    {"errors"},
    {
        "argument_validation",
        "capability_names",
        "durations",
        "file_locations",
        "lake_page",
        "property_values",
        "sql_limits",
        "text_encoding",
    },
    {
        "author_object",
        "capabilities",
        "commit_retries",
        "input_file",
        "table_name",
        "table_properties",
        "untrusted_properties",
    },
    {"json_codec", "reserved_columns", "setting_kinds", "table_facts"},
    {"applied", "as_of", "database_access", "kafka_access", "reports", "row_age"},
    {"author"},
    {"curve_order", "policy_settings", "specs"},
)
ORDERED = {
    PACKAGE: WORKER_FLOORS,
    PACKAGE / SPARK_SIDE: DRIVER_FLOORS,
    PACKAGE / SPARK_SIDE / "formats/iceberg": ICEBERG_FLOORS,
    PACKAGE / "contracts": CONTRACT_FLOORS,
}
# On no floor of the worker's: files at the top, which everybody or nobody imports, and the driver's side.
OFF_FLOORS = {PACKAGE: {"__version__", "get_provider_info", SPARK_SIDE}}
ARCHITECTURE = REPOSITORY / "docs/architecture.md"
MOST_LINES = 400
MOST_ROOMS = 29


def imports_within(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the file, its place in the folder and the place it imports; a place is a folder or a file at the top."""
    prefix = dotted(folder / "__init__.py").split(".")
    for source in sorted(folder.rglob("*.py")):
        place = source.relative_to(folder).with_suffix("").parts[0]
        for name in imported_modules(ast.parse(source.read_text())):
            parts = name.split(".")
            if parts[: len(prefix)] == prefix and len(parts) > len(prefix):
                yield str(source.relative_to(folder)), place, parts[len(prefix)]


def runs_up(folder: Path, floors: tuple[set[str], ...]) -> list[str]:
    """Return the imports of a folder that do not run down."""
    floor_of = {place: number for number, floor in enumerate(floors) for place in floor}
    return [
        f"{source} imports {target}"
        for source, place, target in imports_within(folder)
        if not {place, target} & {"__init__", *OFF_FLOORS.get(folder, ())}
        if place != target and floor_of[place] <= floor_of[target]
    ]


def places(folder: Path) -> set[str]:
    """Return the folders and files of a folder by name."""
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return found - {"__init__"}


@pytest.mark.parametrize("folder", ORDERED, ids=["worker", "driver", "iceberg", "contracts"])
def test_no_import_runs_back_up(folder: Path) -> None:
    floors = ORDERED[folder]
    assert places(folder) - OFF_FLOORS.get(folder, set()) == set().union(*floors)
    assert runs_up(folder, floors) == []


def drawn_floors(text: str) -> dict[str, list[set[str]]]:
    """Return the orders of folders that the page draws, top down: commas part floors, and ``and`` joins two folders."""
    return {
        folder: [set(re.findall(r"`(\w+)/`", floor)) for floor in re.split(r", ", order)]
        for folder, order in re.findall(r"^- In `([\w/]+)/`: ([^.]+)\.$", text, re.MULTILINE)
    }


def test_the_architecture_page_draws_the_same_order() -> None:
    page = re.sub(r"\n  (?=\S)", " ", ARCHITECTURE.read_text())
    folders = {
        str(folder.relative_to(PACKAGE.parent if folder == PACKAGE else PACKAGE)): folder
        for folder in ORDERED
        if folder != PACKAGE / "contracts"
    }
    in_code = {
        name: [rooms for floor in reversed(ORDERED[folder]) if (rooms := {r for r in floor if (folder / r).is_dir()})]
        for name, folder in folders.items()
    }
    assert drawn_floors(page) == in_code


def imports_of(source: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules that a file imports; ``from folder import file`` names the file."""
    tree = ast.parse(source.read_text())
    members = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return ({*imported_modules(tree), *members} & modules.keys()) - {dotted(source)}


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_not_even_for_their_types() -> None:
    # Whoever imports anything of ours runs the package's own file: it is no edge.
    modules = {dotted(source): source for source in MODULES}
    assert circle({name: imports_of(source, modules) for name, source in modules.items()}) == []


def test_a_circle_through_types_alone_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "REPOSITORY", tmp_path)
    codes = {
        "a": "from top import b",
        "b": "if TYPE_CHECKING:\n    from top.c import C",
        "c": "def f():\n    import top.a",
    }
    (tmp_path / "top").mkdir()
    for name, code in codes.items():
        (tmp_path / f"top/{name}.py").write_text(code)
    modules = {f"top.{name}": tmp_path / f"top/{name}.py" for name in codes}
    graph = {name: imports_of(source, modules) for name, source in modules.items()}
    assert sorted(set(circle(graph))) == ["top.a", "top.b", "top.c"]


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


def test_the_tops_of_both_sides_can_be_seen_at_a_glance() -> None:
    assert len(places(PACKAGE)) + len(places(PACKAGE / SPARK_SIDE)) <= MOST_ROOMS


def test_no_file_of_the_package_has_more_than_four_hundred_lines() -> None:
    lines = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in MODULES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_an_import_that_runs_up_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "REPOSITORY", tmp_path)
    for name, code in {"low": "from top.high import x", "high": "import top.low"}.items():
        (tmp_path / "top" / name).mkdir(parents=True)
        (tmp_path / "top" / name / "a.py").write_text(code)
    assert runs_up(tmp_path / "top", ({"low"}, {"high"})) == ["low/a.py imports high"]
