"""Maintenance decided from metadata alone, over the facts of ``tables/base.py``: no Spark, no catalog, no library."""
