"""All DAG files are imported, and no process listens on other than loopback. The last file by name: it looks back."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

import pytest

from tests.end_to_end.standalone_airflow import StandaloneAirflow
from tests.end_to_end.with_scheduler.dags_of_airflow import DAGS, OF_TESTS, dag_ids

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_airflow_imports_every_dag_of_the_repository(airflow: StandaloneAirflow) -> None:
    assert airflow.get("/importErrors") == {"import_errors": [], "total_entries": 0}
    assert dag_ids(airflow) == DAGS | OF_TESTS


def test_nothing_listens_on_other_than_loopback(airflow: StandaloneAirflow) -> None:
    airflow.note_listeners()
    listening = airflow.listened_on
    assert listening, "nothing listens at all, not even the API server"
    assert [address for address in listening if not is_loopback(address)] == []


def is_loopback(text: str) -> bool:
    address = ip_address(text)
    # Java listens on IPv6 sockets that stand for an IPv4 address.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
