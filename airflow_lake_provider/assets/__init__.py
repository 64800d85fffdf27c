"""Lake tables as Airflow assets."""
