"""The process that Spark's Python workers are forked from, without archives on its path.

Spark puts three archives in front of its workers' path: `pyspark.zip`, py4j's, and its own jar. A
worker has its caches of the path emptied before each task (`pyspark.worker_util`), and Python then
reads the tables of contents of all three anew, thousands of entries: that was longer than all else
a worker does in a micro-batch of one event. PySpark is installed where a local job runs, so the
archives are taken off the path before any worker is forked, and PySpark comes from where it is
installed. Spark starts this module by `spark.python.daemon.module` (`session.py`).

What the operator needs is imported before any worker is forked, too: each worker would do it anew,
and Spark ends one that had nothing to do for a minute, so the next event would wait for it.
"""

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any


def without_archives(
    path: list[str], importers: MutableMapping[str, Any], spark_home: Path
) -> list[str]:
    """What stays of a path when Spark's own archives go, and with them what is kept of them.

    Args:
        path: as `sys.path`.
        importers: as `sys.path_importer_cache`; entries of archives are removed.
        spark_home: where Spark lies; archives elsewhere are the user's and stay.
    """
    archives = {
        entry for entry in path if Path(entry).is_file() and Path(entry).is_relative_to(spark_home)
    }
    for entry in archives:
        importers.pop(entry, None)
    return [entry for entry in path if entry not in archives]


IMPORTED = ("pandas", "pyspark.sql.pandas.serializers", "brokertwin.streaming.job.operator")


def import_for_all() -> None:
    """Import what each worker needs; none of it is looked at by the workers' garbage collection."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Forks workers until Spark ends, as `pyspark.daemon` does."""
    home = os.environ.get("SPARK_HOME")
    if home:
        before = sys.path
        sys.path = without_archives(before, sys.path_importer_cache, Path(home))
        if importlib.util.find_spec("pyspark") is None:
            sys.path = before
    import_for_all()
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
