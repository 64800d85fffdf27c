from __future__ import annotations

from cProfile import Profile
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from airflow_lake_provider.contracts.file_locations import normalised
from airflow_lake_provider.iceberg.file_ownership import OUTSIDE, FileOwners, TableLocation

OWN = TableLocation(name="n.t", location="s3://b/wh/n/t", declared=("s3://pool/d", "s3://b/wh"), uuid="1")
OTHERS = (
    TableLocation(name="n.tfoo", location="s3a://b/wh/n/tfoo", uuid="2"),
    TableLocation(name="n.u", location="s3://b/wh/n/u/", declared=("s3n://pool/d",), uuid="3"),
    TableLocation(name="n.inner", location="s3://b/wh/n/t/inner", uuid="4"),
    TableLocation(name="n.wide", location="s3://b/wh", uuid="5"),
)
OWNERS = FileOwners(table=OWN, others=OTHERS, warehouse="s3://b/wh/")


@pytest.mark.parametrize(
    ("location", "owner"),
    [
        ("s3://b/wh/n/t/data/x", "n.t"),
        ("s3a://B/wh/n/t/data/x", "n.t"),
        ("S3N://b//wh/n/t/data//x", "n.t"),
        # No writer spells a path so.
        ("s3://b/wh/n/./t/data/x", OUTSIDE),
        ("s3://b/wh/n/t/data/../data/x", OUTSIDE),
        ("s3://b/wh/n/t/data/p=a%2Fb/x", "n.t"),
        ("s3://b/wh/n/tfoo/data/x", "n.tfoo"),
        ("s3://b/wh/n/t/../u/data/x", "n.u"),
        ("s3://b/wh/n/t/%2e%2e/u/data/x", "n.u"),
        ("s3://b/wh/n/t/%2E%2E/elsewhere/x", OUTSIDE),
        ("s3://b/wh/n/t/inner/data/x", "n.inner"),
        ("s3://b/wh/elsewhere/x", OUTSIDE),
        ("s3://c/wh/n/t/data/x", OUTSIDE),
        ("gs://b/wh/n/t/data/x", OUTSIDE),
        ("/b/wh/n/t/data/x", OUTSIDE),
        ("file:///etc/passwd", OUTSIDE),
        # A path that several tables declare: Iceberg's object storage layout adds the folder of each.
        ("s3://pool/d/0101/n/t/x.parquet", "n.t"),
        ("s3://pool/d/0101/n/u/x.parquet", "n.u"),
        ("s3://pool/d/x.parquet", "n.u"),
    ],
)
def test_a_file_is_the_tables_whose_location_is_the_deepest_around_it(location: str, owner: str) -> None:
    assert OWNERS.owner_of(location) == owner


@pytest.mark.parametrize("declared", ["s3://b/wh", "s3://b/wh/", "s3a://b/wh/n", "file:///", "/", "s3://b"])
def test_a_declared_path_around_the_table_or_the_warehouse_makes_no_file_its_own(declared: str) -> None:
    owners = FileOwners(
        table=TableLocation(name="n.t", location="s3://b/wh/n/t", declared=(declared,)), warehouse="s3://b/wh"
    )
    for victim in ("s3://b/wh/n/u/x", "file:///etc/passwd", "s3://b/other/x"):
        assert owners.owner_of(victim) == OUTSIDE
    assert owners.owner_of("s3://b/wh/n/t/data/x") == "n.t"


@pytest.mark.parametrize("location", ["file:///", "/", "file:/", "s3://b/wh", "s3://b"])
def test_a_table_that_says_it_lies_in_all_of_the_warehouse_owns_nothing(location: str) -> None:
    owners = FileOwners(
        table=TableLocation(name="n.t", location=location), warehouse="s3://b/wh" if "b" in location else "/wh"
    )
    assert owners.owner_of(f"{location.rstrip('/')}/x") == OUTSIDE


@pytest.mark.parametrize("victim", ["s3://b/elsewhere/x.parquet", "s3a://b//elsewhere/./x.parquet/"])
def test_a_path_that_names_a_file_itself_makes_it_nobodys_own(victim: str) -> None:
    for table in (
        TableLocation(name="n.t", location="s3://b/wh/n/t", declared=(victim,)),
        TableLocation(name="n.t", location=victim),
    ):
        assert FileOwners(table=table).owner_of("s3://b/elsewhere/x.parquet") == OUTSIDE


@pytest.mark.parametrize("location", ["s3://b/wh/a%20b", "s3a://b//wh/a%2Fb/", "s3://b/wh/50%25", "s3://b/wh/100%"])
def test_a_table_whose_folder_has_an_escape_in_its_name_owns_the_files_in_it(location: str) -> None:
    root = location.rstrip("/")
    decoded = TableLocation(name="n.u", location=unquote(root), uuid="2")
    for declares in (False, True):
        lies = {"location": "s3://b/wh/t", "declared": (location,)} if declares else {"location": location}
        table = TableLocation(name="n.t", uuid="1", **lies)
        owners = FileOwners(table=table, warehouse="s3://b/wh")
        assert owners.owner_of(f"{root}/data/p=a%2Fb/x") == "n.t"
        assert owners.owner_of(f"{unquote(root)}/data/x") == ("n.t" if unquote(root) == root else OUTSIDE)
        assert owners.owner_of(f"{root}/%2e%2e/%2e%2e/elsewhere/x") == OUTSIDE
        if unquote(root) != root:
            assert replace(owners, others=(decoded,)).owner_of(f"{root}/data/x") == "n.u"


@pytest.mark.parametrize(
    "location", ["s3://b/wh/n/t/%2e%2e/u", "s3://b/wh/%2e%2e", "s3://b/wh%2f", "s3://b/%77h", "s3://b/wh/%6e"]
)
def test_an_escape_that_leads_around_a_table_makes_no_file_its_own(location: str) -> None:
    table = TableLocation(name="n.t", location="s3://b/wh/n/t", declared=(location,))
    assert FileOwners(table=table, warehouse="s3://b/wh").owner_of(f"{location}/x") == OUTSIDE


def test_a_bucket_may_be_one_tables() -> None:
    table = TableLocation(name="n.t", location="s3://0f3--table-s3")
    assert FileOwners(table=table, warehouse="arn:aws:s3tables:b").owner_of("s3://0f3--table-s3/data/x") == "n.t"


@pytest.mark.parametrize(
    ("other", "common"),
    [
        (TableLocation(name="n.o", location="s3://b/x", uuid="1"), "table uuid"),
        (TableLocation(name="n.o", location="s3a://b/wh/n/t/", uuid="9"), "location"),
        (TableLocation(name="n.o", location="s3://b/wh/n/x/../t", uuid="9"), "location"),
        (TableLocation(name="n.o", location="s3://b/x", uuid="9", metadata_file="s3://b/m.json"), "metadata file"),
    ],
)
def test_a_table_under_another_name_is_noticed(other: TableLocation, common: str) -> None:
    table = TableLocation(name="n.t", location="s3://b/wh/n/t", uuid="1", metadata_file="s3://b/m.json")
    assert list(FileOwners(table=table, others=(*OTHERS[:1], other)).twins()) == [("n.o", common)]


def test_files_where_a_table_lay_before_are_its_own() -> None:
    earlier = TableLocation(name="n.t", location="s3://old/t", declared=("s3://old-data/t",), uuid="1")
    owners = FileOwners(table=OWN, earlier=(earlier,), others=OTHERS)
    assert owners.owner_of("s3://old/t/data/x") == owners.owner_of("s3://old-data/t/x") == "n.t"


@pytest.mark.parametrize("spelled", ["file:{0}", "file://{0}", "{0}", "FILE://{0}/", "file://{0}/x/..", "file:///{0}"])
def test_a_local_path_has_one_spelling(spelled: str, tmp_path: Path) -> None:
    assert normalised(spelled.format(tmp_path)) == f"file://{tmp_path.resolve()}"


def test_links_of_a_local_disk_are_followed_on_both_sides(tmp_path: Path) -> None:
    (tmp_path / "warehouse" / "t").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "warehouse" / "t" / "data").symlink_to(tmp_path / "victim")
    (tmp_path / "way").symlink_to(tmp_path / "warehouse")
    owners = FileOwners(table=TableLocation(name="n.t", location=f"file://{tmp_path}/way/t"))
    assert owners.owner_of(f"file://{tmp_path}/way/t/data/x") == OUTSIDE
    assert owners.owner_of(f"file:{tmp_path}/warehouse/t/x") == "n.t"


def test_a_table_whose_folder_is_a_link_owns_what_the_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "disk" / "t" / "inner").mkdir(parents=True)
    for name, target in (("t", "disk/t"), ("inner", "disk/t/inner")):
        (tmp_path / name).symlink_to(tmp_path / target)
    inner = TableLocation(name="n.inner", location=f"file:{tmp_path}/inner/", uuid="2")
    for location in (f"{tmp_path}/t", f"file://{tmp_path}/disk/t"):
        owners = FileOwners(table=TableLocation(name="n.t", location=location, uuid="1"), others=(inner,))
        for root in (f"{tmp_path}/t", f"{tmp_path}/disk/t"):
            assert owners.owner_of(f"file:{root}/data/x") == "n.t"
            assert owners.owner_of(f"file:{root}/inner/data/x") == "n.inner"
        assert owners.owner_of(f"file:{tmp_path}/inner/data/x") == "n.inner"
        twin = TableLocation(name="n.o", location=f"file:{tmp_path}/t", uuid="9")
        assert list(FileOwners(table=owners.table, others=(inner, twin)).twins()) == [("n.o", "location")]


def test_a_path_without_a_scheme_lies_in_the_default_file_system() -> None:
    owners = FileOwners(table=TableLocation(name="n.t", location="hdfs://nn:8020/wh/t"), default_root="hdfs://NN:8020")
    assert owners.owner_of("/wh/t/data/x") == "n.t"
    assert owners.owner_of("file:///wh/t/data/x") == OUTSIDE


def test_whose_a_file_is_takes_no_more_calls_beside_a_thousand_tables() -> None:
    def calls(tables: int) -> int:
        others = [TableLocation(name=f"n.t{place}", location=f"s3://b/wh/n/t{place}") for place in range(tables)]
        owners = FileOwners(table=OWN, others=(*others, *OTHERS), warehouse="s3://b/wh")
        assert owners.owner_of(f"s3://b/wh/n/t{tables - 1}/data/x") == f"n.t{tables - 1}"
        profile = Profile()
        assert profile.runcall(owners.owner_of, "s3://b/wh/n/t/data/day=2026-11-30+00%3A00/1.parquet") == "n.t"
        return sum(each.callcount for each in profile.getstats())

    assert calls(1_000) == calls(1)
