"""A Kafka broker on loopback, in a folder of its own: one node of KRaft, from the jars that Kafka publishes."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

REPOSITORY = Path(__file__).parents[2]
USER, PASSWORD = "reader", 'p@ss "secret" \\:%'
_LOCK = Path(__file__).with_name("kafka_broker.lock")
_ROOT = "org.apache.kafka:kafka_2.13:4.1.1"
_SECONDS = 60


@dataclass(frozen=True)
class KafkaBroker:
    """A running broker.

    :param plain: ``127.0.0.1:<port>`` without a login; ``sasl`` the same with one, of user and password above.
    """

    plain: str
    sasl: str


def jars_of(lock: Path, folder: str, *roots: str) -> list[Path]:
    """Bring the jars of a lock into a folder of the lake's home, once."""
    place = Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / folder
    fetch = [sys.executable, str(REPOSITORY / "scripts" / "fetch_jars.py"), str(place), "--lock", str(lock)]
    done = subprocess.run([*fetch, "--resolve", *roots], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return sorted(place.glob("*.jar"))


@contextmanager
def kafka_broker() -> Iterator[KafkaBroker]:
    """Serve an empty cluster of one node."""
    jars = [*jars_of(_LOCK, "kafka-broker", _ROOT), *_of_spark()]
    with TemporaryDirectory(prefix="lake-kafka-") as name:
        folder = Path(name)
        plain, sasl, control = (f"127.0.0.1:{port}" for port in _free_ports(3))
        settings = folder / "server.properties"
        settings.touch(0o600)
        settings.write_text(_settings(folder, plain, sasl, control), encoding="utf-8")
        options = ("-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true")
        java = [shutil.which("java") or "java", *options, "-cp", ":".join(map(str, jars))]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one word: an id may begin with a dash, which its parser takes for an option.
        made = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(settings)]
        done = subprocess.run(made, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        log = folder / "log"
        with log.open("w") as output:
            server = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(sasl, server, log)
            yield KafkaBroker(plain, sasl)
        finally:
            server.kill()
            server.wait()


def _of_spark() -> list[Path]:
    """Return jars that Spark's resolver leaves out, as Spark has them."""
    folder = Path(pyspark.__file__).parent / "jars"
    return [jar for name in ("scala-library-2", "slf4j-api-") for jar in folder.glob(f"{name}*.jar")]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _settings(folder: Path, plain: str, sasl: str, control: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    login = f'{module} required user_{USER}="{password}";'
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{control}",
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl},CONTROLLER://{control}",
        "advertised.listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        # A file of properties reads a backslash as an escape.
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login.replace("\\", "\\\\"),
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        # Compaction and retention look often.
        "log.cleaner.backoff.ms": 100,
        "log.retention.check.interval.ms": 200,
        "log.initial.task.delay.ms": 100,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _wait_until_ready(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, f"Kafka ended:\n{log.read_text()[-4000:]}"
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"Kafka was not ready:\n{log.read_text()[-4000:]}")
