"""Specs: what a worker asks of a driver, an action each."""
