"""Errors that PySpark raises, told apart by the Java exceptions behind them."""
