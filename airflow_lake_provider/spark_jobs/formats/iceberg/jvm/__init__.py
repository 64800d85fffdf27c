"""Iceberg's Java classes, functions and errors, reached through py4j."""
