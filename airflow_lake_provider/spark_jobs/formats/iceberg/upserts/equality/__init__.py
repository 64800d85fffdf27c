"""Upserts by equality deletes, on request."""
