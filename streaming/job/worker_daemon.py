"""The process that forks Spark's Python workers, with a shorter path.

Spark puts three archives first on its workers' path: `pyspark.zip`, py4j's, and its own jar. A
worker clears its path caches before each task (`pyspark.worker_util`), and Python then reads
thousands of archive entries again. That takes longer than the rest of a micro-batch with one event.
PySpark is installed on the machine of a local job, so the archives are removed from the path before
a fork. Spark starts this module by `spark.python.daemon.module` (`session.py`).

The operator's imports are also done before a fork. Otherwise each worker repeats them, and Spark
ends a worker after an idle minute, so the next event would wait.
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
    """Remove Spark's archives from a path and its importer cache.

    Args:
        path: like `sys.path`.
        importers: like `sys.path_importer_cache`; entries of the archives are removed.
        spark_home: Spark's directory; other archives stay.
    """
    archives = {
        entry for entry in path if Path(entry).is_file() and Path(entry).is_relative_to(spark_home)
    }
    for entry in archives:
        importers.pop(entry, None)
    return [entry for entry in path if entry not in archives]


IMPORTED = ("pandas", "pyspark.sql.pandas.serializers", "brokertwin.streaming.job.operator")


def import_for_all() -> None:
    """Import what each worker needs, and exclude it from garbage collection."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Fork workers until Spark ends, like `pyspark.daemon`."""
    home = os.environ.get("SPARK_HOME")
    if home:
        before = sys.path
        sys.path = without_archives(before, sys.path_importer_cache, Path(home))
        if importlib.util.find_spec("pyspark") is None:
            sys.path = before
    import_for_all()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
