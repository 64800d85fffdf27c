"""Compaction and snapshot expiry."""
