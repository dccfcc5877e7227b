"""Being started by `spark-submit`: a JVM runs already, and was given a configuration.

Source: org.apache.spark.deploy.PythonRunner starts Python with the address of its gateway in
`PYSPARK_GATEWAY_PORT`; pyspark.java_gateway.launch_gateway uses that one and starts no other.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GATEWAY = "PYSPARK_GATEWAY_PORT"
MASTER = "spark.master"
JARS = "spark.jars"
CONNECTOR = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"


def is_active() -> bool:
    """Whether `spark-submit` started this process."""
    return GATEWAY in os.environ


def configuration() -> dict[str, str]:
    """What `spark-submit` was given, by `--conf`, its other options or its defaults' file."""
    from pyspark import SparkConf

    _jvm()
    return dict(SparkConf().getAll())


def master() -> str | None:
    """The master that `spark-submit` was given."""
    return configuration().get(MASTER)


def has_connector() -> bool:
    """Whether the Spark-Kafka connector came with `--packages`, `--jars` or Spark itself."""
    return _class_loader().getResource(CONNECTOR) is not None


def add_to_driver(jars: Iterable[Path]) -> None:
    """Put jars where `--jars` puts them in the driver, before there is a Spark context.

    `ADD JAR` would not do: it is for one session's class loader, and the threads that read the
    results of tasks on a cluster (TaskResultGetter) do not have that one.
    """
    jvm, loader = _jvm(), _class_loader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _class_loader() -> Any:
    """The MutableURLClassLoader that SparkSubmit makes; all threads of the JVM inherit it."""
    return _jvm().java.lang.Thread.currentThread().getContextClassLoader()


def _jvm() -> Any:
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._jvm
