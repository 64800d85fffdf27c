"""Jobs of the Spark driver: one action, one module, one public function from spec to report. Never Airflow."""
