"""Iceberg tables as PyIceberg loads, reads and changes them."""
