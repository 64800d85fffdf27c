"""Airflow provider that upserts into lake tables, keeps them small and tells downstream DAGs what changed.

What an author writes beside the operators is imported from here: ``from airflow_lake_provider import Debezium``.
"""

from __future__ import annotations

# Both sides of the process border import this file, so it imports nothing that one of them has not got.
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.custom_source import PositionSource
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter, RepairedLetters
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import (
    Aggregation,
    Deduplicate,
    FirstRow,
    History,
    PartialUpdate,
)
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium, Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout

__version__ = "0.1.0"
__all__ = [
    "Aggregation",
    "Audits",
    "Changes",
    "DeadLetter",
    "Debezium",
    "DebeziumTopic",
    "Deduplicate",
    "Files",
    "FirstRow",
    "History",
    "JdbcTable",
    "KafkaTopic",
    "LakeTable",
    "PartialUpdate",
    "PositionSource",
    "PySparkFunction",
    "Query",
    "RepairedLetters",
    "SchemaContract",
    "TableLayout",
]
