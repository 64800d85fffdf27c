"""Plugins of Airflow's UI."""
