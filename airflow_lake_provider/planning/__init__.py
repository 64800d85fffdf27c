"""Plans of maintenance, made from metadata in the worker: PyIceberg, no Spark and no Airflow."""
