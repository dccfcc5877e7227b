"""Spark's own archives are not on the path of its Python workers."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokerstream.streaming.worker_daemon import without_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_archives_of_spark_go_and_all_else_stays(tmp_path: Path) -> None:
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
def test_a_worker_has_pyspark_from_where_it_is_installed(spark: "SparkSession") -> None:
    def paths(frames: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd
        import pyspark

        for _ in frames:
            yield pd.DataFrame({"path": [pyspark.__file__, *sys.path, *sys.path_importer_cache]})

    found = [row.path for row in spark.range(1).mapInPandas(paths, "path string").collect()]
    assert Path(found[0]).is_file()
    assert [path for path in found if path.endswith((".jar", "pyspark.zip", "-src.zip"))] == []
