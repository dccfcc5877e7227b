"""Processor time of Spark's processes below this one."""

from contextlib import suppress

import psutil


def spark_time() -> dict[str, float]:
    """Return seconds so far: of the JVM, its Python workers, and ended children."""
    (jvm,) = (
        each for each in psutil.Process().children() if "SparkSubmit" in " ".join(each.cmdline())
    )
    times = jvm.cpu_times()
    workers = 0.0
    for each in jvm.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # # a `chmod` that has just ended
            of_worker = each.cpu_times()
            workers += of_worker.user + of_worker.system
    return {
        "JVM": times.user + times.system,
        "workers": workers,
        "ended": times.children_user + times.children_system,
    }
