"""Reads snapshots of tables without Spark and without Airflow: PyIceberg, PyArrow, fsspec and ``contracts`` only."""
