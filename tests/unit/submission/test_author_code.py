"""Code of authors reaches a driver, or is refused before Spark starts where the driver could not import it."""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.custom_source import PositionSource
from airflow_lake_provider.contracts.author.sources import Files, Source, source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.specs.spec_codec import spec_from_plain, spec_to_plain
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.submission.author_code import code_of, refuse_left_behind

NUMBERS = Path(__file__).parents[2] / "end_to_end" / "dags" / "numbers_source.py"


@dataclass(frozen=True)
class OfTheseTests(PositionSource):
    """A source whose module is found, but does not travel."""

    reader: ClassVar[str] = "elsewhere:Reader"


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a source, found beside a DAG file."""
    monkeypatch.syspath_prepend(str(NUMBERS.parent))
    yield importlib.import_module("numbers_source")
    sys.modules.pop("numbers_source")


def archive(folder: Path, *names: str) -> str:
    with zipfile.ZipFile(folder / "code.zip", "w") as opened:
        for name in names:
            opened.writestr(name, "")
    return str(folder / "code.zip")


def test_a_module_that_travels_is_taken_and_one_that_does_not_is_refused(numbers: Any, tmp_path: Path) -> None:
    given = numbers.Numbers("a=3", name="n")
    packed = archive(tmp_path, "numbers_source/__init__.py")
    for py_files in (str(NUMBERS), f"other.py,{NUMBERS}", packed, "s3a://code/all.zip"):
        refuse_left_behind(given, py_files)
    (tmp_path / "broken.zip").write_bytes(b"PK")
    for left in (None, "", "other.py", archive(tmp_path, "other.py"), str(tmp_path / "broken.zip")):
        with pytest.raises(InvalidSpecError, match=r"Numbers needs \['numbers_source'\] on the driver.*py_files"):
            refuse_left_behind(given, left)
    refuse_left_behind(Files("in/a.csv"), None)


def test_a_class_that_no_driver_can_import_is_refused_by_where_it_is(
    numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Local(PositionSource):
        pass

    with pytest.raises(InvalidSpecError, match=r"Local is defined in .*a module of its own"):
        refuse_left_behind(Local(), str(NUMBERS))
    # As Airflow imports a DAG file.
    monkeypatch.setattr(numbers.Numbers, "__module__", "unusual_prefix_0a1b_numbers")
    monkeypatch.setitem(sys.modules, "unusual_prefix_0a1b_numbers", numbers)
    with pytest.raises(InvalidSpecError, match=r"unusual_prefix_0a1b_numbers, which a driver cannot import"):
        refuse_left_behind(numbers.Numbers("a=3"), str(NUMBERS))


def test_a_reader_has_to_be_named_and_to_travel_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = f"{OfTheseTests.__module__.partition('.')[0]}.py"
    with pytest.raises(InvalidSpecError, match=r"needs \['elsewhere'\]"):
        refuse_left_behind(OfTheseTests(), shipped)
    refuse_left_behind(OfTheseTests(), f"{shipped},elsewhere.py")
    monkeypatch.setattr(OfTheseTests, "reader", "no class")
    with pytest.raises(InvalidSpecError, match=r"reader='no class', expected 'package.module:Class'"):
        refuse_left_behind(OfTheseTests(), shipped)


def test_a_spec_brings_the_class_to_a_driver_and_no_mapping_of_an_author_can_name_a_module(numbers: Any) -> None:
    spec = UpsertSpec(
        catalog="c",
        table="a.b",
        run=RunIdentity.of("r"),
        source=numbers.Numbers("a=3 b=1", name="n"),
        keys=("generator",),
    )
    text = json.loads(to_json(spec_to_plain(spec)))
    assert text["spec"]["source"]["type"] == "numbers_source:Numbers"
    assert spec_from_plain(text) == spec
    text["spec"]["source"]["type"] = "no_such_module:Numbers"
    with pytest.raises(InvalidSpecError, match=r"'no_such_module:Numbers' cannot be imported by the driver.*py_files"):
        spec_from_plain(text)
    with pytest.raises(InvalidSpecError, match="needs a type"):
        source({"type": "this:Zen", "path": "in"})
    assert "this" not in sys.modules
    assert "numbers_source:Numbers" in Source.kinds()


@pytest.mark.parametrize(
    ("text", "is_shipped"),
    [
        ("from os import path", True),
        ("from . import rates", False),
        ("def f():\n    from ..shop import rates", False),
        ("def f(:", True),
    ],
)
def test_a_module_that_is_none_without_its_package_is_left_to_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_shipped: bool
) -> None:
    name = f"loads_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert code_of(f"{name}:f") == (text if is_shipped else None)


# é and 名, composed and not: a text that another encoding would change.
TEXT = "def f(spark):\n    return 'é e\u0301 名'\n"


@pytest.mark.parametrize("content", [TEXT.encode(), TEXT.encode("utf-8-sig"), TEXT.replace("\n", "\r\n").encode()])
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_module_is_read_wherever_python_imports_it_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, is_packed: bool
) -> None:
    name = f"packed_{abs(hash((content, is_packed)))}"
    if is_packed:
        with zipfile.ZipFile(tmp_path / "dag.zip", "w") as opened:
            opened.writestr(f"{name}.py", content)
    else:
        (tmp_path / f"{name}.py").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path / "dag.zip" if is_packed else tmp_path)
    assert code_of(f"{name}:f") == TEXT
    given: dict[str, Any] = {}
    exec(code_of(f"{name}:f") or "", given)  # it is the text above
    assert given["f"](None) == importlib.import_module(name).f(None)


def test_a_module_in_another_encoding_is_refused_as_its_driver_would_read_another_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "latin_module.py").write_bytes("# -*- coding: latin-1 -*-\nX = 'é'".encode("latin-1"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidSpecError, match=r"latin_module\.py travels .* save it as UTF-8"):
        code_of("latin_module:f")
