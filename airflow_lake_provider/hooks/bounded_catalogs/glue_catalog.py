"""A catalog in AWS Glue whose calls end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_lake_provider.hooks.bounded_catalogs.trusted_tables import TrustedTables
from airflow_lake_provider.hooks.call_limits import CONNECT_SECONDS, seconds_left

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# Between two bytes; Glue answers a table within one.
_READ_SECONDS = 30.0


def glue_catalog() -> type[Catalog]:
    """Return PyIceberg's catalog, with limits for each of its calls.

    :raises ImportError: the extra ``glue`` is not installed.
    """
    from pyiceberg.catalog.glue import GlueCatalog

    class LakeGlueCatalog(TrustedTables, GlueCatalog):
        def __init__(self, name: str, **properties: Any) -> None:
            super().__init__(name, **{"botocore_session": _session(), **properties})

    return LakeGlueCatalog


def _session() -> Any:
    """Return a session of botocore with timeouts; no attempt begins after the deadline of the call."""
    from botocore.config import Config
    from botocore.session import Session

    def refuse_late(**_: Any) -> None:
        seconds_left()

    session = Session()
    session.set_default_client_config(Config(connect_timeout=CONNECT_SECONDS, read_timeout=_READ_SECONDS))
    session.register("before-send.glue", refuse_late)
    return session
