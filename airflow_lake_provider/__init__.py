"""Airflow provider that upserts into lake tables, keeps them small and tells downstream DAGs what changed."""

from __future__ import annotations

# Both sides of the process border import this file, so it imports nothing itself.
__version__ = "0.1.0"
