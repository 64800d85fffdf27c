"""HDFS and YARN on loopback: four daemons of Hadoop, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil

from tests.end_to_end.lake_environment import REPOSITORY

_LOCK = Path(__file__).with_name("hadoop.lock")
_ROOTS = ("hdfs", "yarn-server-resourcemanager", "yarn-server-nodemanager", "yarn-server-timelineservice")
_DAEMONS = {
    "namenode": "hdfs.server.namenode.NameNode",
    "datanode": "hdfs.server.datanode.DataNode",
    "resourcemanager": "yarn.server.resourcemanager.ResourceManager",
    "nodemanager": "yarn.server.nodemanager.NodeManager",
}
_SECONDS = 180


@dataclass(frozen=True)
class HadoopCluster:
    """Addresses of a running cluster.

    :param configuration: folder of its XML files, for ``HADOOP_CONF_DIR``.
    :param logs: folder of what daemons and containers print.
    :param webhdfs: ``127.0.0.1:<port>``; ``resource_manager`` the same of YARN's REST API.
    :param daemons: process ids by the daemon's name.
    """

    configuration: Path
    logs: Path
    webhdfs: str
    resource_manager: str
    daemons: Mapping[str, int] = field(default_factory=dict)

    def applications(self, name: str) -> dict[str, str]:
        """Return the states of YARN's applications of a name by their ids, in the order of their submission."""
        return {each["id"]: each["state"] for each in self._applications() if each["name"] == name}

    def spark_pages(self) -> list[str]:
        """Return the addresses of the REST APIs of running Spark applications, through YARN's proxy."""
        base = f"http://{self.resource_manager}/proxy"
        running = [each["id"] for each in self._applications() if each["state"] == "RUNNING"]
        return [f"{base}/{name}/api/v1/applications/{name}" for name in running]

    def kill(self, application: str) -> None:
        """Let YARN kill an application, as ``yarn application -kill`` does."""
        address = f"http://{self.resource_manager}/ws/v1/cluster/apps/{application}/state"
        body = json.dumps({"state": "KILLED"}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(address, body, headers, method="PUT"), timeout=60).close()

    def driver(self, application: str) -> list[psutil.Process]:
        """Return the processes of the container in which an application has its driver, the oldest first."""
        container = f"container_{application.removeprefix('application_')}_"
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                command = " ".join(process.cmdline())
                if container in command and "ApplicationMaster" in command:
                    found += [process, *process.children(recursive=True)]
        return sorted(set(found), key=lambda process: process.pid)

    @contextmanager
    def paused(self, daemon: str) -> Iterator[None]:
        """Let a daemon answer nothing for a while; its connections stay open."""
        os.kill(self.daemons[daemon], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.daemons[daemon], signal.SIGCONT)

    def _applications(self) -> list[dict[str, Any]]:
        found = _get(f"http://{self.resource_manager}/ws/v1/cluster/apps")
        return sorted((found["apps"] or {"app": []})["app"], key=lambda each: str(each["id"]))

    def names_in(self, folder: str) -> list[str]:
        """Return the names of a folder of HDFS; none where it does not exist."""
        try:
            found = _get(f"http://{self.webhdfs}/webhdfs/v1{folder}?op=LISTSTATUS")
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return []
            raise
        return [status["pathSuffix"] for status in found["FileStatuses"]["FileStatus"]]


def hadoop_jars(folder: Path) -> Path:
    """Bring the daemons' jars into a folder, once."""
    folder.mkdir(parents=True, exist_ok=True)
    roots = [f"org.apache.hadoop:hadoop-{name}:3.4.2" for name in (*_ROOTS, "mapreduce-client-core")]
    fetch = [sys.executable, str(REPOSITORY / "scripts" / "fetch_jars.py"), str(folder), "--lock", str(_LOCK)]
    done = subprocess.run([*fetch, "--resolve", *roots], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@contextmanager
def hadoop_cluster(folder: Path, jars: Path, free_port: Callable[[], int]) -> Iterator[HadoopCluster]:
    """Run HDFS with one data node, and YARN with one node manager.

    :param folder: not there yet; configuration, logs and blocks.
    :param jars: folder of ``hadoop_jars``.
    """
    cluster = HadoopCluster(folder / "conf", folder / "logs", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
    _write_configuration(cluster, folder, free_port)
    options = ("-Xmx300m", "-Djava.net.preferIPv4Stack=true", "--add-opens", "java.base/java.lang=ALL-UNNAMED")
    java = [_java(), *options, "-cp", f"{cluster.configuration}:{jars}/*"]
    name_node = [*java, f"org.apache.hadoop.{_DAEMONS['namenode']}", "-format", "-nonInteractive"]
    subprocess.run(name_node, capture_output=True, timeout=_SECONDS, check=True)
    with ExitStack() as running:
        daemons = {
            name: running.enter_context(_daemon([*java, f"org.apache.hadoop.{kind}"], cluster.logs / f"{name}.log"))
            for name, kind in _DAEMONS.items()
        }
        _wait_until_ready(cluster)
        yield replace(cluster, daemons=daemons)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    assert java, "no java in JAVA_HOME or on PATH; run scripts/setup"
    return java


@contextmanager
def _daemon(command: Sequence[str], log: Path) -> Iterator[int]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()


def _wait_until_ready(cluster: HadoopCluster) -> None:
    deadline = time.monotonic() + _SECONDS
    nodes = f"http://{cluster.webhdfs}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    while True:
        try:
            active = _get(f"http://{cluster.resource_manager}/ws/v1/cluster/metrics")["clusterMetrics"]["activeNodes"]
            live = _get(nodes)["beans"][0]["NumLiveDataNodes"]
        except (OSError, LookupError, ValueError):
            active = live = 0
        if active and live:
            return
        logs = "\n".join(file.read_text()[-1500:] for file in sorted(cluster.logs.glob("*.log")))
        assert time.monotonic() < deadline, f"HDFS and YARN were not ready:\n{logs}"
        time.sleep(1)


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return json.load(answer)


def _write_configuration(cluster: HadoopCluster, folder: Path, free_port: Callable[[], int]) -> None:
    def local() -> str:
        return f"127.0.0.1:{free_port()}"

    # The daemons look for the pages of theirs; none are needed.
    for pages in ("hdfs", "datanode", "static"):
        (cluster.configuration / "webapps" / pages).mkdir(parents=True)
    cluster.logs.mkdir()
    yarn = {name: local() for name in _YARN_ADDRESSES}
    files = {
        "core": {"fs.defaultFS": f"hdfs://{local()}", "hadoop.tmp.dir": f"{folder}/tmp"},
        "hdfs": {
            **{f"dfs.datanode.{name}": local() for name in ("address", "http.address", "ipc.address")},
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.http-address": cluster.webhdfs,
            "dfs.permissions.enabled": "false",
            "dfs.replication": "1",
        },
        "yarn": {
            **_YARN,
            **yarn,
            "yarn.resourcemanager.webapp.address": cluster.resource_manager,
            "yarn.nodemanager.local-dirs": f"{folder}/local",
            "yarn.nodemanager.log-dirs": f"{cluster.logs}/containers",
        },
    }
    for name, properties in files.items():
        (cluster.configuration / f"{name}-site.xml").write_text(_xml(properties))
    (cluster.configuration / "log4j.properties").write_text(
        "log4j.rootLogger=INFO,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%p %c{1}: %m%n\n"
    )


def _xml(properties: Mapping[str, str]) -> str:
    entries = "\n".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    return f"<configuration>\n{entries}\n</configuration>\n"


_YARN_ADDRESSES = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.resource-tracker.address",
    "yarn.resourcemanager.admin.address",
    "yarn.nodemanager.address",
    "yarn.nodemanager.localizer.address",
    "yarn.nodemanager.webapp.address",
    "yarn.nodemanager.collector-service.address",
)
_YARN = {
    "yarn.resourcemanager.hostname": "127.0.0.1",
    "yarn.resourcemanager.bind-host": "127.0.0.1",
    "yarn.nodemanager.hostname": "127.0.0.1",
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.scheduler.minimum-allocation-mb": "256",
    # Two processes of one container may share more memory than a machine of tests has.
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    # Containers are given out when the node reports.
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.application.classpath": "",
}
