"""Spark's JVM, started as PySpark starts it, without one line on standard error.

Spark's launcher always gives the JVM `--add-modules=jdk.incubator.vector` (JavaModuleOptions), and
the JVM then says `WARNING: Using incubator modules`, which no option turns off and about which
nobody can do anything. All else that the JVM and Spark's Python workers write on standard error
passes as it comes.
"""

import os
import threading
from collections.abc import Mapping

INCUBATOR_WARNING = b"WARNING: Using incubator modules:"
STDERR = 2


def start(configuration: Mapping[str, str]) -> None:
    """Start the JVM if there is none; the session that is made next uses it.

    Args:
        configuration: of the session, for what has to be known when the JVM starts.
    """
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
    """Copy lines from one file descriptor to another, until the first ends, without the warning."""
    with open(source, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR_WARNING):
                os.write(target, line)


def stop(timeout_s: float) -> None:
    """End the JVM that PySpark leaves running until the interpreter exits; none is as well.

    Args:
        timeout_s: how long it may take.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout_s)
        SparkContext._gateway = None
        SparkContext._jvm = None
