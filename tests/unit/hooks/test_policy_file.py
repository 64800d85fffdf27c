"""The file of policies beside the DAGs: what it takes, and what it refuses, by its line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.policy_file import MOST_BYTES, parse_policy_file, read_policy_file
from airflow_lake_provider.maintenance.policy import Layer, TablePolicy, merge
from tests.unit.contracts.test_policy_settings import WRONG_VALUES

TEXT = """
# Last match holds.
tables:
  "*":
    compaction: {small_file_share: 0.3, min_input_files: 4}
    orphans:
      mode: off
  shop.*:
    orphans:
      mode: delete
      older_than: P5D
    major_hours: 22-6
    paused: false
  shop.orders:
    compaction:
      small_file_share: 0.1
      sort_by: [day, id DESC]
      strategy: sort
    fresh_within: null
    owner: 'team: orders'
"""


def policy_of(table: str, text: str = TEXT) -> TablePolicy:
    return merge(table, [parse_policy_file(text, "/dags/lake_policy.yaml").layer(table)])


def test_entries_hold_in_the_order_of_the_file_key_by_key() -> None:
    orders, others = policy_of("shop.orders"), policy_of("lake.events")
    assert orders.value_of("compaction.small_file_share").value == 0.1
    assert orders.value_of("compaction.small_file_share").origin == "lake_policy.yaml:16 'shop.orders'"
    assert orders.value_of("compaction.min_input_files").origin == "lake_policy.yaml:5 '*'"
    assert orders.value_of("compaction.sort_by").value == ["day", "id DESC"]
    assert orders.value_of("orphans.mode").value == "delete"
    assert orders.value_of("owner").value == "team: orders"
    assert (others.value_of("orphans.mode").value, others.value_of("orphans.mode").layer) == ("off", Layer.FILE)
    reversed_file = "tables:\n  shop.orders: {priority: 1}\n  '*': {priority: 2}"
    assert policy_of("shop.orders", reversed_file).value_of("priority").value == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "# nothing\n", "tables: {}", "tables:\n  shop.x: {}", "\ufefftables: {}"),
        *("---", "---\n# nothing\n", "%YAML 1.2\n---\n...\n", "null"),
    ],
)
def test_a_file_may_name_nothing(text: str) -> None:
    assert parse_policy_file(text.removeprefix("\ufeff"), "f.yaml").layer("shop.x").named == []


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        *((text, text) for text in ("nULL", "None", "off", "No", "yes")),
        *((f"'{text}'", text) for text in ("~", "NULL", "TRUE")),
    ],
)
def test_plain_texts_are_those_of_the_core_of_yaml_1_2(plain: str, value: object) -> None:
    key = "paused" if isinstance(value, bool) else "pool"
    assert policy_of("a.b", f"tables: {{a.b: {{{key}: {plain}}}}}").value_of(key).value == value


FAULTS = [
    ("table: {}", r"f\.yaml:1: a file of policies has no 'table'; did you mean 'tables'\?; it has tables"),
    ("- tables", r"f\.yaml:1: a file of policies must be a mapping, got \"\['tables'\]\""),
    ("tables:\n", r"f\.yaml:1: tables must be a mapping, got ''"),
    ("tables:\n  shop.*:\n", r"f\.yaml:2: policy of 'shop\.\*' must be a mapping"),
    ("tables:\n  shop.*: {pausd: true}", r"f\.yaml:2: a policy has no 'pausd'; did you mean 'paused'"),
    (
        "tables:\n  a.b:\n    orphans:\n      mod: off",
        r"f\.yaml:4: orphans of a policy has no 'mod'; did you mean 'mode'",
    ),
    ("tables:\n  a.b:\n    orphans: delete", r"f\.yaml:3: orphans must be a mapping, got 'delete'"),
    ("tables:\n  a.b:\n    paused: yes", r"f\.yaml:3: paused must be true or false, got 'yes'"),
    ("tables:\n  a.b:\n    pool: TRUE", r"f\.yaml:3: pool must be a text .* got True"),
    ("tables:\n  a.b:\n    orphans: {mode: false}", r"f\.yaml:3: orphans\.mode must be one of 'off', .* got False"),
    ("tables:\n  a.b:\n    priority: [1]", r"f\.yaml:3: priority must be a whole number .* got \[1\]"),
    ("tables:\n  a.b:\n    priority: {x: 1}", r"f\.yaml:3: priority must be a whole number .* got \{'x': 1\}"),
    ("tables:\n  a.b:\n    major_hours: 22:30", r"f\.yaml:3: major_hours must be hours in UTC .* got '22:30'"),
    ("tables:\n  a.b: {}\n  c.d: {}\n  a.b: {}", r"f\.yaml:4: tables has 'a\.b' on line 2 already"),
    ("tables:\n  a.b: {paused: true, 'paused': true}", r"f\.yaml:2: policy of 'a\.b' has 'paused' on line 2 already"),
    ("tables: {}\ntables: {}", r"f\.yaml:2: a file of policies has 'tables' on line 1 already"),
    ("tables:\n  '!a.b': {}", r"f\.yaml:2: an entry leaves out no table; write another entry behind it"),
    ("tables:\n  shop: {}", r"f\.yaml:2: table name 'shop' is not of the form namespace\.table"),
    ("tables:\n  shop orders: {}", r"f\.yaml:2: tables \['shop orders'\] are no patterns"),
    ("tables:\n  ? [a]\n  : {}", r"f\.yaml:2: tables has a name that is no text"),
    ("a: &x {}\nb: *x", r"f\.yaml:1: anchors, aliases and tags of YAML are not taken"),
    ("tables: {<<: {}, a.b: {}}", r"f\.yaml:1: tables \['<<'\] are no patterns"),
    ("tables: !!python/object/apply:os.system ['exit 1']", r"f\.yaml:1: anchors, aliases and tags of YAML"),
    ("---\n---\n", r"f\.yaml:2: a file of policies has one document"),
    ("''", r"f\.yaml:1: a file of policies must be a mapping, got ''"),
    ("tables: {}\n---\ntables: {}", r"f\.yaml:2: a file of policies has one document"),
    ("tables: {", r"f\.yaml:\d: it is no YAML"),
    ("tables:\n\t- x", r"f\.yaml:2: it is no YAML: found character that cannot start any token"),
    ("tables: \x00", r"f\.yaml:1: it is no YAML"),
    ("[" * 100_000, r"f\.yaml:1: it is nested deeper than any policy"),
    ("tables: {a.b: {compaction: {sort_by: [[[a]]]}}}", r"f\.yaml:1: it is nested deeper than any policy"),
]


@pytest.mark.parametrize(("text", "why"), FAULTS)
def test_what_no_policy_has_is_refused_by_file_and_line(text: str, why: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"^{why}"):
        parse_policy_file(text, "f.yaml")


@pytest.mark.parametrize(("key", "value"), [each[:2] for each in WRONG_VALUES if isinstance(each[1], (int, str, list))])
def test_a_value_that_a_dag_may_not_name_is_refused_in_a_file_too(key: str, value: Any) -> None:
    text = json.dumps(value)
    group, _, name = key.rpartition(".")
    settings = f"{group}: {{{name}: {text}}}" if group else f"{name}: {text}"
    with pytest.raises(InvalidSpecError, match=r"^f\.yaml:3: "):
        parse_policy_file(f"tables:\n  a.b:\n    {settings}", "f.yaml")


def test_all_faults_are_said_at_once_in_the_order_of_lines_and_at_most_twenty() -> None:
    with pytest.raises(InvalidSpecError) as refused:
        parse_policy_file("tables:\n  a.b:\n    paused: 1\n    orphans: {mode: x}\n  c.d: {}\n  c.d: {}", "f.yaml")
    assert [each.partition(" ")[0] for each in str(refused.value).splitlines()] == [
        "f.yaml:3:",
        "f.yaml:4:",
        "f.yaml:6:",
    ]
    with pytest.raises(InvalidSpecError) as refused:
        parse_policy_file("tables:\n" + "".join(f"  a.b{n}: {{x: 1}}\n" for n in range(50)), "f.yaml")
    assert str(refused.value).splitlines()[20:] == ["and 30 faults more"]


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Take away the right to search a folder, of root too."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    return tmp_path


def test_the_file_beside_the_dags_is_read_where_there_is_one(dags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_policy_file() is None
    (dags / "lake_policy.yaml").write_text("tables: {'*': {priority: 1}}")
    (dags / "other.yaml").write_bytes("\ufefftables: {'*': {priority: 2}}".encode())
    priorities = [
        file.layer("a.b").named[0].value for file in (read_policy_file(), read_policy_file("other.yaml")) if file
    ]
    assert priorities == [1, 2]
    monkeypatch.setenv("AIRFLOW__LAKE__POLICY_FILE", "other.yaml")
    found = read_policy_file()
    assert found is not None
    assert found.path == str(dags / "other.yaml")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file of policies"),
        (b"tables: \xff", "cannot be read as UTF-8"),
        (b"#" * (MOST_BYTES + 1), f"a file of policies has at most {MOST_BYTES} bytes"),
    ],
)
def test_a_file_that_is_named_has_to_be_one(dags: Path, content: bytes | None, why: str) -> None:
    if content is not None:
        (dags / "mine.yaml").write_bytes(content)
    with pytest.raises(InvalidSpecError, match=f"mine.yaml: {why}|mine.yaml: it {why}"):
        read_policy_file("mine.yaml")
    with pytest.raises(InvalidSpecError, match="there is no such file"):
        read_policy_file(str(dags))


@pytest.mark.parametrize("name", [None, "lake_policy.yaml", "mine.yaml"])
def test_a_link_that_leads_nowhere_is_no_absent_file(dags: Path, name: str | None) -> None:
    (dags / (name or "lake_policy.yaml")).symlink_to(dags / "moved.yaml")
    with pytest.raises(InvalidSpecError, match=r"\.yaml: it is a link to .*moved\.yaml, which does not exist"):
        read_policy_file(name)


@pytest.mark.parametrize("name", [None, "mine.yaml"])
def test_a_file_that_cannot_be_looked_for_is_no_absent_file(
    dags: Path, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dags / "closed"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    with as_nobody(folder), pytest.raises(InvalidSpecError, match=r"\.yaml: it cannot be read .*Permission denied"):
        read_policy_file(name)


def test_the_largest_file_is_read_within_seconds() -> None:
    lines = "".join(f"  shop.t{number}: {{priority: 1}}\n" for number in range(8_000))
    started = time.process_time()
    entries = parse_policy_file(f"tables:\n{lines}", "f.yaml").entries
    assert len(entries) == 8_000
    assert time.process_time() - started < 10
    assert len(lines) > MOST_BYTES * 0.8
