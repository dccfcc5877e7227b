"""Starts Spark's JVM like PySpark, but without one warning.

Spark's launcher always passes `--add-modules=jdk.incubator.vector` (JavaModuleOptions). The JVM
then prints `WARNING: Using incubator modules`, which no option turns off. All other standard error
output of the JVM and Spark's Python workers is passed on.
"""

import os
import threading
from collections.abc import Mapping

INCUBATOR_WARNING = b"WARNING: Using incubator modules:"
STDERR = 2


def start(configuration: Mapping[str, str]) -> None:
    """Start the JVM if there is none; the next session uses it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(configuration.items()))
    reads, writes = os.pipe()
    threading.Thread(target=relay, args=(reads, STDERR), name="stderr", daemon=True).start()
    try:
        gateway = launch_gateway(conf, {"stderr": writes})  # type: ignore[no-untyped-call]
    finally:
        os.close(writes)
    SparkContext._ensure_initialized(gateway=gateway)


def relay(source: int, target: int) -> None:
    """Copy lines between file descriptors until the end, without the warning."""
    with open(source, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR_WARNING):
                os.write(target, line)


def stop(timeout_s: float) -> None:
    """Stop the JVM that PySpark keeps until the interpreter exits, if any.

    Raises:
        subprocess.TimeoutExpired: after the timeout.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout_s)
        SparkContext._gateway = None
        SparkContext._jvm = None
