"""Data that crosses the border between an Airflow worker and a Spark driver. Standard library only."""
