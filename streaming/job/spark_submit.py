"""Support for `spark-submit`, which starts the JVM with a configuration.

Source: org.apache.spark.deploy.PythonRunner starts Python with its gateway's address in
`PYSPARK_GATEWAY_PORT`; pyspark.java_gateway.launch_gateway uses it.
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
    """The configuration of `spark-submit`, from options and defaults file."""
    from pyspark import SparkConf

    _jvm()
    return dict(SparkConf().getAll())


def master() -> str | None:
    return configuration().get(MASTER)


def has_connector() -> bool:
    """Whether the Spark-Kafka connector is on the class path."""
    return _class_loader().getResource(CONNECTOR) is not None


def add_to_driver(jars: Iterable[Path]) -> None:
    """Add jars to the driver like `--jars`, before there is a Spark context.

    `ADD JAR` uses a session's class loader, which the threads that read task results on a cluster
    (TaskResultGetter) do not have.
    """
    jvm, loader = _jvm(), _class_loader()
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())


def _class_loader() -> Any:
    return _jvm().java.lang.Thread.currentThread().getContextClassLoader()


def _jvm() -> Any:
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._jvm
