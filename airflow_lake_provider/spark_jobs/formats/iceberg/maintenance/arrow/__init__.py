"""Rewrite file groups by ``pyarrow.parquet`` in the Python workers of the executors."""
