"""Hooks of a worker: the catalog of a connection, and Spark applications."""
