"""Commands of ``airflow lake``."""
