"""Servers that do not encrypt, or whose certificate nobody trusts: a connection to repair, at every try."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
from pyiceberg.exceptions import ServerError

from airflow_lake_provider.contracts.errors import InvalidConnectionError
from airflow_lake_provider.hooks.catalog_errors import is_unanswered, is_untrusted
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from tests.unit.hooks.test_lake_catalog import set_connection

_SSL_REQUEST = 8


@contextmanager
def _accepting(answer: bytes) -> Iterator[int]:
    """Serve a database that answers each request for encryption, and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    asked, _ = listening.accept()
                except OSError:
                    return
                with asked:
                    asked.recv(_SSL_REQUEST)
                    asked.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def _self_signed(folder: Path) -> Iterator[int]:
    """Serve TLS with a certificate that nobody has signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lake")])
    now = datetime.now(UTC)
    unsigned = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    unsigned = unsigned.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    pem = serialization.Encoding.PEM
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "certificate.pem").write_bytes(unsigned.sign(key, hashes.SHA256()).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    asked, _ = listening.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(asked, server_side=True).close()
                except OSError:
                    asked.close()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_database_without_encryption_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with _accepting(b"N") as port:
        set_connection(
            monkeypatch,
            host=f"postgresql://127.0.0.1:{port}/lake?sslmode=require",
            login="lake",
            password="hunter2-hunter2",
            extra={"type": "sql", "warehouse": "/tmp/lake"},
        )
        with pytest.raises(InvalidConnectionError, match=r"(?s)connection that client and server trust: .* sslmode"):
            LakeCatalogHook("lake_default").load_table("shop.orders")


@pytest.mark.parametrize("asks_for_a_token", [False, True])
def test_a_certificate_that_nobody_trusts_is_not_asked_again(
    asks_for_a_token: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with _self_signed(tmp_path) as port:
        login = {"login": "id", "password": "hunter2-hunter2"} if asks_for_a_token else {}
        extra = {"oauth2-server-uri": f"https://127.0.0.1:{port}/token"} if asks_for_a_token else {}
        set_connection(monkeypatch, host=f"https://127.0.0.1:{port}", **login, extra=extra)
        with pytest.raises(InvalidConnectionError, match=r"connection that client and server trust: .*certificate"):
            LakeCatalogHook("lake_default").load_table("shop.orders")


def test_a_glue_whose_certificate_nobody_trusts_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "some-key")
    with _self_signed(tmp_path) as port:
        extra = {"type": "glue", "warehouse": "s3://bucket/warehouse", "glue.region": "eu-west-1"}
        endpoint = {"glue.endpoint": f"https://127.0.0.1:{port}", "pyiceberg": {"glue.max-retries": 1}}
        set_connection(monkeypatch, extra={**extra, **endpoint})
        with pytest.raises(InvalidConnectionError, match=r"connection that client and server trust: .*certificate"):
            LakeCatalogHook("lake_default").load_table("shop.orders")


def test_a_store_whose_certificate_nobody_trusts_is_not_asked_again(tmp_path: Path) -> None:
    with _self_signed(tmp_path) as port:
        store = S3FileSystem(
            access_key="some-key",
            secret_key="some-secret",
            scheme="https",
            endpoint_override=f"127.0.0.1:{port}",
            region="eu-west-1",
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=0),
        )
        with pytest.raises(OSError, match="curlCode: 60") as raised:
            store.get_file_info("lake/shop/orders.metadata.json")
    assert is_untrusted(raised.value)


def test_a_catalog_that_does_not_trust_its_own_store_is_asked_again() -> None:
    answer = ServerError("SSLHandshakeException: PKIX path building failed")
    assert not is_untrusted(answer)
    assert is_unanswered(answer)
