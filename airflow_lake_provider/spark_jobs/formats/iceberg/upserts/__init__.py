"""Rows by key, and the strategies that apply them."""
