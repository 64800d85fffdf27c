"""The archive for --py-files: a function of the code alone, and enough to import the driver's side."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from airflow_lake_provider.submission import job_files as module
from airflow_lake_provider.submission.job_files import APPLICATION, PACKAGE, job_archive


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, to be changed."""
    copied = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copied)
    monkeypatch.setattr(module, "PACKAGE", copied)
    return copied


def test_equal_code_gives_an_equal_archive_of_the_same_name_at_any_time(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    first = job_archive(places[0])
    for source in package.rglob("*.py"):
        source.touch()
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    second = job_archive(places[1])
    assert first.name == second.name
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_the_name_follows_the_shipped_code_and_nothing_else(tmp_path: Path, package: Path) -> None:
    names = [job_archive(tmp_path).name]
    (package / "operators" / "upsert.py").write_text("")
    (package / "spark_jobs" / "notes.txt").write_text("not code")
    names.append(job_archive(tmp_path).name)
    (package / "contracts" / "errors.py").open("a").write("# changed\n")
    names.append(job_archive(tmp_path).name)
    (package / "spark_jobs" / "run_job.py").rename(package / "spark_jobs" / "runs_job.py")
    names.append(job_archive(tmp_path).name)
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_the_name_follows_how_the_archive_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = job_archive(tmp_path).name
    changed = tmp_path / "job_files.py"
    changed.write_text(Path(module.__file__).read_text().replace("optimize=0", "optimize=1"))
    monkeypatch.setattr(module, "__file__", str(changed))
    assert job_archive(tmp_path).name != first


def test_it_holds_the_folders_of_the_driver_and_the_packages_first_file(tmp_path: Path) -> None:
    inside = set(zipfile.ZipFile(job_archive(tmp_path)).namelist())
    wanted = {
        str(path.relative_to(PACKAGE.parent))
        for folder in ("contracts", "iceberg", "spark_jobs")
        for path in (PACKAGE / folder).rglob("*.py")
    }
    wanted.add(f"{PACKAGE.name}/__init__.py")
    assert inside == wanted | {f"{name}c" for name in wanted}
    assert str(APPLICATION.relative_to(PACKAGE.parent)) in inside


def imported(folder: Path, code: str) -> str:
    """Return what code prints that an isolated Python runs."""
    done = subprocess.run([sys.executable, "-ISc", code], check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_driver_imports_from_it_without_the_worker(tmp_path: Path) -> None:
    archive = job_archive(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); sys.modules['airflow'] = None\n"
        "import airflow_lake_provider.contracts.specs.job as spec, airflow_lake_provider.contracts.reports.job\n"
        "print(spec.__file__)"
    )
    assert imported(tmp_path, code).startswith(str(archive))


def test_the_driver_compiles_no_module_of_it(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(job_archive(tmp_path))!r})\n"
        "compiled = []\n"
        "sys.addaudithook(lambda event, given: compiled.append(given[1]) if event == 'compile' else None)\n"
        "import airflow_lake_provider.contracts.specs.spec_codec\n"
        "print([name for name in compiled if 'airflow_lake_provider' in str(name)])"
    )
    assert imported(tmp_path, code) == "[]\n"


def test_a_driver_of_another_python_takes_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [job_archive(tmp_path).name]
    monkeypatch.setattr(module, "MAGIC_NUMBER", b"\x00\x00\r\n")
    archive = job_archive(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import airflow_lake_provider.contracts.specs.job as spec; print(spec.__file__)"
    )
    assert imported(tmp_path, code) == f"{archive}/airflow_lake_provider/contracts/specs/job.py\n"
    assert archive.name not in names


def test_an_error_in_it_shows_the_line_of_its_source(tmp_path: Path) -> None:
    code = (
        f"import sys, traceback; sys.path.insert(0, {str(job_archive(tmp_path))!r})\n"
        "from airflow_lake_provider.contracts.errors import LakeProviderError\n"
        "from airflow_lake_provider.contracts.durations import duration\n"
        "try: duration('soon', 'every')\n"
        "except LakeProviderError: traceback.print_exc(file=sys.stdout)"
    )
    shown = imported(tmp_path, code)
    assert 'File "airflow_lake_provider/contracts/durations.py"' in shown
    assert "    raise InvalidSpecError(" in shown


def test_it_is_the_same_whatever_the_process_has_in_memory(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = {path!r}\n"
        "import airflow_lake_provider.submission.job_files as module, hashlib, pathlib\n"
        "{more}\n"
        "print(hashlib.sha256(module.job_archive(pathlib.Path({folder!r})).read_bytes()).hexdigest())"
    )
    path = [str(PACKAGE.parent)]
    printed = []
    for name, more in (("plain", ""), ("loaded", "import airflow_lake_provider.contracts.specs.spec_codec, json, ast")):
        (tmp_path / name).mkdir(mode=0o700)
        printed.append(imported(tmp_path, code.format(path=path, more=more, folder=str(tmp_path / name))))
    assert printed[0] == printed[1]


def test_it_holds_all_of_the_package_that_its_own_code_imports(tmp_path: Path) -> None:
    # In cluster mode the driver's machine has nothing else of the package; here it is installed.
    with zipfile.ZipFile(job_archive(tmp_path)) as archive:
        inside = {name for name in archive.namelist() if name.endswith(".py")}
        trees = {name: ast.parse(archive.read(name)) for name in inside}
    missing = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module_name in modules:
                path = module_name.replace(".", "/")
                if path.startswith(PACKAGE.name) and not {f"{path}.py", f"{path}/__init__.py"} & inside:
                    missing.add(f"{name}: {module_name}")
    assert missing == set()


def test_the_application_starts_from_it_where_only_spark_is_installed(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    installed.mkdir()
    for name in ("pyspark", "py4j"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (installed / name).symlink_to(Path(spec.origin).parent)
    code = (
        f"import sys; sys.path[:0] = [{str(job_archive(tmp_path))!r}, {str(installed)!r}]\n"
        "import airflow_lake_provider.spark_jobs.run_job as job\n"
        "print(job.__file__)"
    )
    assert imported(tmp_path, code).startswith(str(tmp_path))


def test_an_archive_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    first = job_archive(tmp_path)
    written = first.stat().st_mtime_ns
    assert job_archive(tmp_path) == first
    assert first.stat().st_mtime_ns == written
    assert list(tmp_path.iterdir()) == [first]
