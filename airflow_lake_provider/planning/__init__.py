"""What maintenance would do, told from metadata in the worker: PyIceberg, no Spark and no Airflow."""
