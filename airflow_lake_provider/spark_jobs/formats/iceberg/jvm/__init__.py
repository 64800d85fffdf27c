"""Iceberg's own Java classes, functions and errors, over ``spark_jobs/jvm/``."""
