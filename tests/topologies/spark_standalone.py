"""A standalone Spark cluster on loopback: one master and one worker, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

_SPARK = Path(pyspark.__file__).parent
_PACKAGE = "org.apache.spark.deploy"
_SECONDS = 120


@contextmanager
def spark_standalone(folder: Path, free_port: Callable[[], int]) -> Iterator[str]:
    """Run the cluster and return the address of its master.

    :param folder: empty; logs and the worker's files.
    """
    address = f"spark://127.0.0.1:{(port := free_port())}"
    at = ("--host", "127.0.0.1", "--webui-port")
    folder.mkdir(parents=True)
    # Spark's own default of logging tells nothing below a warning to what is not a shell.
    (folder / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.out.ref = console\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %m%n\n"
    )
    with ExitStack() as running:
        master = ("master.Master", *at, str(free_port()), "--port", str(port))
        running.enter_context(_daemon(folder, "master", master, "I have been elected leader"))
        limits = ("--cores", "1", "--memory", "1200m", "--work-dir", str(folder / "work"))
        worker = ("worker.Worker", *at, str(free_port()), *limits, address)
        running.enter_context(_daemon(folder, "worker", worker, "Successfully registered"))
        yield address


@contextmanager
def _daemon(folder: Path, name: str, command: Sequence[str], ready: str) -> Iterator[None]:
    log = folder / f"{name}.log"
    kind, *arguments = command
    environment = {
        **os.environ,
        "SPARK_HOME": str(_SPARK),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(_SPARK / "bin" / "spark-class"), f"{_PACKAGE}.{kind}", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            deadline = time.monotonic() + _SECONDS
            while ready not in log.read_text():
                assert process.poll() is None, f"the {name} ended:\n{log.read_text()[-4000:]}"
                assert time.monotonic() < deadline, f"the {name} was not ready:\n{log.read_text()[-4000:]}"
                time.sleep(0.5)
            yield
        finally:
            process.kill()
            process.wait()
