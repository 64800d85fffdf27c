"""Real tables of format versions 2 and 3, whose metadata others alter; before each mutation they are as they were made.

Beside them stand files and a table that no job may touch, and a module and a class that no job may run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress

CATALOG = "hostile"
_RESTORED = ("warehouse", "victims")
NAMESPACE = "tables"
BASES = ("v2", "v3", "foreign")
MODULE = "somebodys_module"
# Of a jar that Spark brings, and that nothing here loads.
JAVA_CLASS = "org.apache.commons.math3.ode.nonstiff.EulerIntegrator"
SCHEMA = "id BIGINT, name STRING, n INT"
_WRITES_A_MARK = """
from pathlib import Path
MARKS = Path({marks!r})
(MARKS / "imported").touch()
def Called(*arguments, **named):
    (MARKS / "called").touch()
    raise OSError("code of a stranger")
"""

Row = tuple[Any, ...]
Metadata = dict[str, Any]


@dataclass
class HostileLake:
    """A catalog on SQLite, and what its tables were when they were made.

    :param spark: a session whose catalog ``hostile`` is this one.
    """

    spark: SparkSession
    home: Path
    rows_of_catalog: list[Row] = field(default_factory=list)
    precious: dict[str, str] = field(default_factory=dict)

    @classmethod
    def made(cls, spark: SparkSession, home: Path) -> HostileLake:
        """Make the tables below ``home``."""
        for name in ("warehouse", "inbox", "victims", "marks", "modules"):
            (home / name).mkdir(parents=True)
        session = spark.newSession()
        catalog = f"spark.sql.catalog.{CATALOG}"
        for name, value in {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{home}/catalog.db",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.warehouse": f"file://{home}/warehouse",
            # Files come and go under the driver.
            f"{catalog}.cache-enabled": "false",
        }.items():
            session.conf.set(name, value)
        lake = cls(session, home)
        lake._make()
        return lake

    @property
    def warehouse(self) -> Path:
        """Folder of the tables."""
        return self.home / "warehouse"

    def batch(self) -> Files:
        """Return the batch of every upsert: one row that is there, and one that is new."""
        return Files(path=f"{self.home}/inbox/batch.jsonl", format="json", schema=SCHEMA, name="inbox")

    def _make(self) -> None:
        (self.home / "inbox" / "batch.jsonl").write_text(_lines((2, "changed", 20), (1000, "new", 7)))
        (self.home / "inbox" / "first.jsonl").write_text(_lines((3, "three", 3), (4, "four", 4)))
        (self.home / "modules" / f"{MODULE}.py").write_text(_WRITES_A_MARK.format(marks=str(self.home / "marks")))
        self.spark.sql(f"CREATE NAMESPACE {CATALOG}.{NAMESPACE}")
        for name in (*BASES, "other"):
            self._make_table(name, "3" if name == "v3" else "2")
        self._add_victims()
        for name in _RESTORED:
            shutil.copytree(self.home / name, self.home / "backup" / name)
        self.rows_of_catalog = self.query("SELECT * FROM iceberg_tables")
        self.precious = self.fingerprints()

    def _make_table(self, name: str, version: str) -> None:
        full = f"{CATALOG}.{NAMESPACE}.{name}"
        self.spark.sql(
            f"CREATE TABLE {full} (id BIGINT, name STRING, n INT) USING iceberg TBLPROPERTIES "
            f"('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
        )
        for first in (1, 11, 21):
            values = ", ".join(f"({key}, 'row {key}', {key})" for key in range(first, first + 8))
            self.spark.sql(f"INSERT INTO {full} VALUES {values}")
        source = Files(path=f"{self.home}/inbox/first.jsonl", format="json", schema=SCHEMA, name="first")
        run = RunIdentity.of("dag", f"first {name}", "task", "-1")
        table = f"{NAMESPACE}.{name}"
        upsert_batch(
            self.spark, UpsertSpec(catalog=CATALOG, table=table, run=run, source=source, keys=("id",)), Progress()
        )
        self.spark.sql(f"DELETE FROM {full} WHERE id = 22")
        self.spark.sql(f"ALTER TABLE {full} CREATE TAG kept")
        self.spark.sql(f"ALTER TABLE {full} CREATE BRANCH side")

    def _add_victims(self) -> None:
        """Let the history of one table name a file that is not its own, as a manifest can."""
        metadata = self.metadata("other")
        other = self.warehouse / NAMESPACE / "other"
        data = min((other / "data").rglob("*.parquet"))
        shutil.copy(data, self.home / "victims" / "data.parquet")
        shutil.copy(_local(metadata["snapshots"][-1]["manifest-list"]), self.home / "victims" / "manifests.avro")
        shutil.copy(_local(self.location("other")), self.home / "victims" / "v1.metadata.json")
        (self.home / "victims" / "notes.txt").write_text("precious")
        jvm: Any = self.spark._jvm
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, f"{CATALOG}.{NAMESPACE}.foreign"
        )
        builder = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(
            f"file://{self.home}/victims/data.parquet"
        )
        file = builder.withFileSizeInBytes(data.stat().st_size).withRecordCount(8).withFormat("parquet").build()
        appended = table.newAppend()
        appended.appendFile(file)
        appended.commit()
        removed = table.newDelete()
        removed.deleteFile(file)
        removed.commit()

    def query(self, sql: str, *values: Any) -> list[Row]:
        """Run SQL on the catalog's own database."""
        with closing(sqlite3.connect(self.home / "catalog.db", timeout=30)) as opened, opened:
            return opened.execute(sql, values).fetchall()

    def location(self, name: str) -> str | None:
        """Return the location of a table's metadata; None where the catalog has no such table."""
        found = self.query("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", name)
        return str(found[0][0]) if found else None

    def metadata(self, name: str) -> Metadata:
        """Return a table's metadata as it is in its file."""
        found: Metadata = json.loads(_local(self.location(name)).read_text())
        return found

    def register(self, name: str, metadata: Metadata | bytes) -> None:
        """Give a table other metadata, as somebody may who can write to the catalog."""
        folder = self.warehouse / NAMESPACE / name / "metadata"
        file = folder / "00099-00000000-0000-0000-0000-000000000000.metadata.json"
        file.write_bytes(
            metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode("utf-8", "surrogatepass")
        )
        self.point(name, f"file://{file}")

    def point(self, name: str, location: str) -> None:
        """Point the catalog's entry of a table elsewhere."""
        self.query("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", location, name)

    def restore(self) -> None:
        """Make all tables what they were when they were made."""
        for name in _RESTORED:
            shutil.rmtree(self.home / name)
            shutil.copytree(self.home / "backup" / name, self.home / name)
        for mark in (self.home / "marks").iterdir():
            mark.unlink()
        self.query("DELETE FROM iceberg_tables")
        for row in self.rows_of_catalog:
            self.query(f"INSERT INTO iceberg_tables VALUES ({', '.join('?' * len(row))})", *row)

    def rows(self, name: str) -> list[Row] | None:
        """Return a table's rows as PyIceberg reads them; None where it does not, or the columns are others.

        No property of the table is read: some name code, and this is not what is under test.
        """
        try:
            location = self.location(name)
            metadata = json.loads(_local(location).read_text())
            metadata["properties"] = {}
            parsed = TableMetadataUtil.parse_raw(json.dumps(metadata))
            loaded = Table((NAMESPACE, name), parsed, str(location), PyArrowFileIO({}), _NO_CATALOG)
            found = loaded.scan().to_arrow()
        # Whatever a mutation broke; there is nothing to compare with then.
        except Exception:  # noqa: BLE001
            return None
        if found.column_names != ["id", "name", "n"]:
            return None
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

    def fingerprints(self) -> dict[str, str]:
        """Return a digest of each file that no job may touch."""
        files = [*(self.home / "victims").rglob("*"), *(self.warehouse / NAMESPACE / "other").rglob("*")]
        found = (file for file in files if file.is_file())
        return {str(file.relative_to(self.home)): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}

    def damage(self) -> list[str]:
        """Return what was done that nobody may do: files that are gone or changed, and code that ran."""
        now = self.fingerprints()
        return [
            *(f"DELETED {name}" for name in self.precious if name not in now),
            *(f"CHANGED {name}" for name in self.precious if now.get(name, "") not in ("", self.precious[name])),
            *(f"CODE RUN {mark.name}" for mark in (self.home / "marks").iterdir()),
            *([f"CODE RUN {JAVA_CLASS}"] if self.has_loaded(JAVA_CLASS) else []),
        ]

    def is_read_by_java(self, name: str) -> bool:
        """Tell whether Iceberg's own parser takes a table's metadata; a driver asks it for 90 s until it gives up."""
        jvm: Any = self.spark._jvm
        try:
            text = _local(self.location(name)).read_bytes().decode("utf-8")
            jvm.org.apache.iceberg.TableMetadataParser.fromJson(text)
        # PySpark has names of its own for some errors of Java.
        except Exception:  # noqa: BLE001
            return False
        return True

    def has_loaded(self, name: str) -> bool:
        """Tell whether the JVM has loaded a class."""
        jvm: Any = self.spark._jvm
        lang = jvm.java.lang
        gateway: Any = self.spark.sparkContext._gateway
        classes = gateway.new_array(lang.Class, 1)
        classes[0] = lang.Class.forName("java.lang.String")
        find = lang.Class.forName("java.lang.ClassLoader").getDeclaredMethod("findLoadedClass", classes)
        find.setAccessible(True)
        values = gateway.new_array(lang.Object, 1)
        values[0] = name
        loader = lang.Thread.currentThread().getContextClassLoader()
        while loader is not None:
            if find.invoke(loader, values) is not None:
                return True
            loader = loader.getParent()
        return False

    @contextmanager
    def of_airflow(self) -> Iterator[None]:
        """Give Airflow the connection, short intervals, and a path on which the stranger's module can be imported."""
        extra = {
            "type": "sql",
            "uri": f"sqlite:///{self.home}/catalog.db",
            "warehouse": f"file://{self.home}/warehouse",
            "catalog_name": CATALOG,
        }
        given = {
            f"AIRFLOW_CONN_{CATALOG.upper()}": json.dumps({"conn_type": "iceberg", "extra": extra}),
            "AIRFLOW__LAKE__WATCH_LOOK_TIMEOUT": "2",
            # Below the bound of an action, so that a call that ends at its deadline is no hang.
            "AIRFLOW__LAKE__CATALOG_TIMEOUT": "3",
        }
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        sys.path.insert(0, str(self.home / "modules"))
        try:
            yield
        finally:
            sys.path.remove(str(self.home / "modules"))
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


_NO_CATALOG: Any = None


def _lines(*rows: Row) -> str:
    return "".join(json.dumps(dict(zip(("id", "name", "n"), row, strict=True))) + "\n" for row in rows)


def _local(location: str | None) -> Path:
    return Path(str(location).removeprefix("file://").removeprefix("file:"))
