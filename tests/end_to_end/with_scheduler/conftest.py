"""One Airflow and one lake for all tests of this folder: each start of `airflow standalone` costs half a minute.

The folder's name is the last one of its neighbours, so no other test runs beside this Airflow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import metadata, snapshots

from tests.end_to_end import retry_delays
from tests.end_to_end.airflow_command import DAGS as DAGS_OF_TESTS
from tests.end_to_end.lake_environment import make_lake_home, quick_environment_of
from tests.end_to_end.mariadb_server import driver_jars, is_installed
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.dags_of_airflow import DAGS, OF_TESTS, POLL_SECONDS, dag_ids
from tests.unit.resource_manager import ResourceManager, resource_manager


@pytest.fixture(scope="session")
def lake_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the one lake."""
    return make_lake_home(tmp_path_factory)


@pytest.fixture(scope="session")
def airflow_environment(lake_home: Path) -> Mapping[str, str]:
    """Environment of the one Airflow and of writers beside it."""
    return quick_environment_of(lake_home)


@pytest.fixture(scope="session")
def dags_folder(airflow_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the repository's DAGs and those of the tests."""
    folder = tmp_path_factory.mktemp("dags")
    repository = Path(airflow_environment["AIRFLOW__CORE__DAGS_FOLDER"])
    names = ("days", "every_load", "every_load_function", "many_tables", "own_source", "numbers_source")
    for file in (*repository.glob("*.py"), *(DAGS_OF_TESTS / f"{name}.py" for name in names)):
        (folder / file.name).symlink_to(file)
    return folder


@pytest.fixture(scope="session")
def yarn() -> Iterator[ResourceManager]:
    # It runs for one more look: a task that goes on at once may pass for lost on a busy machine.
    with resource_manager(("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")) as found:
        yield found


@pytest.fixture(scope="session")
def airflow(
    airflow_environment: Mapping[str, str],
    dags_folder: Path,
    lake_home: Path,
    yarn: ResourceManager,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[StandaloneAirflow]:
    environment = {
        **airflow_environment,
        **retry_delays.prepare(lake_home / "delays", dags_folder, yarn.connection, airflow_environment),
        "AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL": str(POLL_SECONDS),
        # No test changes a DAG file. Parsing each of them every 30 s would take a fifth of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
    }
    # The skips of tests/spark/sources/test_mariadb_tables.py say that it is not there.
    if is_installed():
        environment["DRIVER_JARS"] = ",".join(map(str, driver_jars()))
    # Drivers listen on loopback without being told.
    environment.pop("SPARK_LOCAL_IP")
    running = StandaloneAirflow(environment, lake_home / "standalone", unused_tcp_port_factory())
    try:
        running.wait_until_healthy()
        wait_for("all DAGs", lambda: dag_ids(running) == DAGS | OF_TESTS or None, lambda: str(dag_ids(running)))
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def catalog(lake_home: Path) -> Iterator[Catalog]:
    with closing(load_catalog("lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db")) as opened:
        yield opened


@pytest.fixture(scope="session")
def stock(catalog: Catalog, lake_home: Path) -> str:
    """A table with three old snapshots, by PyIceberg."""
    catalog.create_namespace_if_not_exists("shop")
    schema = pa.schema([("sku", pa.string()), ("pieces", pa.int64())])

    # The day before yesterday: what is younger than a day is not removed.
    def seconds() -> float:
        return time.time() - 2 * 86_400

    with (
        patch.object(metadata, "datetime_to_millis", lambda _: int(seconds() * 1000)),
        patch.object(snapshots, "time", Mock(time=seconds)),
    ):
        table = catalog.create_table("shop.stock", schema=schema, location=f"file://{lake_home}/warehouse/stock")
        for pieces in (1, 2, 3):
            table.append(pa.table({"sku": [f"sku-{pieces}"], "pieces": [pieces]}, schema=schema))
    return "shop.stock"
