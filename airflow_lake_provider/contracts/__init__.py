"""Data that crosses the border between an Airflow worker and a Spark driver, and rules that both decide by.

Standard library only.
"""
