"""Spark's own archives are not on the path of its Python workers."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokertwin.streaming.job import worker_daemon
from brokertwin.streaming.job.worker_daemon import without_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_sparks_archives_are_removed(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    (home / "lib").mkdir(parents=True)
    archive, users = home / "lib" / "pyspark.zip", tmp_path / "mine.zip"
    archive.touch()
    users.touch()
    path = ["", str(archive), str(home), str(users), "/not/there"]
    importers: dict[str, Any] = dict.fromkeys(path)
    assert without_archives(path, importers, home) == ["", str(home), str(users), "/not/there"]
    assert list(importers) == ["", str(home), str(users), "/not/there"]


@pytest.mark.spark
def test_a_worker_imports_installed_pyspark_and_the_daemons_modules(
    spark: "SparkSession",
) -> None:
    def seen(frames: Iterator[Any]) -> Iterator[Any]:
        modules, frozen = sorted(sys.modules), gc.get_freeze_count()
        import pandas as pd
        import pyspark

        for _ in frames:
            path = [pyspark.__file__, *sys.path, *sys.path_importer_cache]
            yield pd.DataFrame({"path": [path], "modules": [modules], "frozen": [frozen]})

    schema = "path array<string>, modules array<string>, frozen long"
    ((path, modules, frozen),) = spark.range(1).repartition(1).mapInPandas(seen, schema).collect()
    assert Path(path[0]).is_file()
    assert [each for each in path if each.endswith((".jar", "pyspark.zip", "-src.zip"))] == []
    assert set(modules) >= set(worker_daemon.IMPORTED)
    assert frozen > 10_000, "what was imported before the fork"
