"""The Spark session of a job: opened, and with the settings that jobs depend on."""
