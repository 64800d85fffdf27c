# Spark master or worker, of the same Python and the same pyspark as the Airflow image. Build it from the repository's root:
#   docker build -f docker/spark.Dockerfile -t airflow-lake-provider/spark .
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 185 spark \
    && install -d -o spark /opt/lake /opt/lake/jars /opt/lake/work

WORKDIR /opt/lake/source
COPY setup.cfg pyproject.toml requirements.lock README.md LICENSE ./
COPY airflow_lake_provider airflow_lake_provider
# Of the package a driver or an executor needs contracts/ and spark_jobs/, which import these and nothing of Airflow.
RUN sed -n 's/^\([A-Za-z0-9._-]*==[^\\]*\).*/\1/p' requirements.lock > /tmp/constraints.txt \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt pyspark pyarrow numpy \
    && pip install --no-cache-dir --no-deps .

USER spark
COPY --chown=spark scripts/fetch_jars.py scripts/jars.lock scripts/
COPY --chown=spark docker/jars.lock docker/
RUN python scripts/fetch_jars.py /opt/lake/jars --lock scripts/jars.lock docker/jars.lock

COPY --chown=spark docker/spark-defaults.conf /opt/lake/conf/
ENV SPARK_CONF_DIR=/opt/lake/conf \
    SPARK_NO_DAEMONIZE=1 \
    PYSPARK_PYTHON=python3
WORKDIR /opt/lake/work
ENTRYPOINT ["tini", "--", "spark-class"]
CMD ["org.apache.spark.deploy.master.Master", "--host", "spark-master", "--port", "7077"]
