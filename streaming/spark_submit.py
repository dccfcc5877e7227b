"""Being started by `spark-submit`: a JVM runs already, and was given a configuration.

Source: org.apache.spark.deploy.PythonRunner starts Python with the address of its gateway in
`PYSPARK_GATEWAY_PORT`; pyspark.java_gateway.launch_gateway uses that one and starts no other.
"""

import os

GATEWAY = "PYSPARK_GATEWAY_PORT"
MASTER = "spark.master"


def is_active() -> bool:
    """Whether `spark-submit` started this process."""
    return GATEWAY in os.environ


def configuration() -> dict[str, str]:
    """What `spark-submit` was given, by `--conf`, its other options or its defaults' file."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def master() -> str | None:
    """The master that `spark-submit` was given."""
    return configuration().get(MASTER)
