"""What Spark's processes below this one have taken of a processor."""

from contextlib import suppress

import psutil


def spark_time() -> dict[str, float]:
    """Seconds so far: of the JVM, of its Python workers, of what it started and what has ended."""
    (jvm,) = (
        each for each in psutil.Process().children() if "SparkSubmit" in " ".join(each.cmdline())
    )
    times = jvm.cpu_times()
    workers = 0.0
    for each in jvm.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a `chmod` that has just ended
            of_worker = each.cpu_times()
            workers += of_worker.user + of_worker.system
    return {
        "JVM": times.user + times.system,
        "workers": workers,
        "ended": times.children_user + times.children_system,
    }
