# Airflow with the package, Java for spark-submit, and the jars. Build it from the repository's root:
#   docker build -f docker/airflow.Dockerfile -t airflow-lake-provider/airflow .
FROM apache/airflow:slim-3.3.2-python3.12

USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o airflow -g root /opt/lake /opt/lake/jars /opt/lake/jobs /opt/airflow/state

USER airflow
WORKDIR /opt/lake/source
COPY --chown=airflow:root setup.cfg pyproject.toml requirements.lock README.md LICENSE ./
COPY --chown=airflow:root airflow_lake_provider airflow_lake_provider
# The versions of the lock as constraints: pip takes hashes for constraints only when the package itself has one.
RUN sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*\).*/\1/p' requirements.lock > /tmp/constraints.txt \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt ".[postgres]"

COPY --chown=airflow:root scripts/fetch_jars.py scripts/jars.lock scripts/
COPY --chown=airflow:root docker/jars.lock docker/
RUN python scripts/fetch_jars.py /opt/lake/jars --lock scripts/jars.lock docker/jars.lock

COPY --chown=airflow:root docker/spark-defaults.conf /opt/lake/conf/
COPY --chown=airflow:root dags /opt/airflow/dags
ENV SPARK_CONF_DIR=/opt/lake/conf \
    AIRFLOW__LAKE__SPARK_JARS=/opt/lake/jars \
    AIRFLOW__LAKE__JOB_DIRECTORY=/opt/lake/jobs
WORKDIR /opt/airflow
