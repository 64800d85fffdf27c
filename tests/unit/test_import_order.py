"""Imports of the package run down, by the order of docs/architecture.md, and never in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.unit import package_imports
from tests.unit.package_imports import ARCHITECTURE, MODULES, PACKAGE, SPARK_SIDE, dotted, imported_modules

# Each side from the ground up: who is on a floor may import what is on the floors below, and nothing else but
# its own folder.
WORKER_FLOORS = (
    {"contracts"},
    {"catalogs", "iceberg", "submission"},
    {"tables"},
    {"maintenance"},
    {"planning"},
    {"hooks"},
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
    {"arrow_files"},
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
        "text_options",
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
    {"applied", "as_of", "reports", "row_age", "source_access"},
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
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50
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
    monkeypatch.setattr(package_imports, "REPOSITORY", tmp_path)
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


def test_the_tops_of_both_sides_can_be_seen_at_a_glance() -> None:
    assert len(places(PACKAGE)) + len(places(PACKAGE / SPARK_SIDE)) <= MOST_ROOMS


def test_no_file_of_the_package_has_more_than_four_hundred_lines() -> None:
    lines = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in MODULES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_function_of_the_package_has_more_than_fifty_lines() -> None:
    functions = (
        (f"{path.relative_to(PACKAGE)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    assert {name: lines for name, lines in functions if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_an_import_that_runs_up_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_imports, "REPOSITORY", tmp_path)
    for name, code in {"low": "from top.high import x", "high": "import top.low"}.items():
        (tmp_path / "top" / name).mkdir(parents=True)
        (tmp_path / "top" / name / "a.py").write_text(code)
    assert runs_up(tmp_path / "top", ({"low"}, {"high"})) == ["low/a.py imports high"]
