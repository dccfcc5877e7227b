"""A job that runs beside the tests, as `brokertwin run` does, and gateways in front of it."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokertwin.cli.job.run_cleaning import Cleaning
from brokertwin.gateway.engine.spark_engine import SparkEngine
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.placement import Placement
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.job import runner
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = PATIENCE_S


class RunningJob:
    """A job in threads of this process.

    Args:
        bootstrap: a real broker.
        directory: parent of the checkpoint.
        spark: the session of the tests.
        broker_settings: of the modelled brokers.
        flags: settings of the job.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        spark: "SparkSession",
        broker_settings: BrokerSettings,
        **flags: Any,
    ) -> None:
        self.bench = JobBench(bootstrap, directory, broker_settings, **flags)
        self._spark = spark
        self._stop = runner.StopReason(WAIT_S)
        self._placed = threading.Event()
        self._thread = threading.Thread()
        self._failure: Exception | None = None

    def start(self) -> None:
        """Start it, or start it again on its checkpoint; returns when gateways may start."""
        self._stop = runner.StopReason(WAIT_S)
        self._placed.clear()
        self._thread = threading.Thread(target=self._run, name="job", daemon=True)
        self._thread.start()
        assert self._placed.wait(WAIT_S)
        assert self._failure is None, self._failure

    def stop(self) -> None:
        self._stop.wanted.set()
        self._thread.join(WAIT_S)
        assert self._failure is None, self._failure

    def _run(self) -> None:
        try:
            with runner.prepared(self.bench.settings, self.bench.broker_settings) as prepared:
                self._placed.set()
                broker_settings = self.bench.broker_settings
                with Cleaning(prepared, broker_settings, lambda: self._spark).while_running():
                    runner.run(prepared, self._stop, session=self._spark)
        except Exception as error:  # noqa: BLE001 (the test's thread receives it)
            self._failure = error
        finally:
            self._placed.set()

    def batches(self) -> int:
        return checkpoint_log.committed(self.bench.checkpoint) + 1

    def engine(self, cluster: str) -> SparkEngine:
        """An engine that waits: the first micro-batch takes more than 60 s on a busy machine."""
        return engine_for(self.bench, cluster, response_timeout_s=WAIT_S)


def engine_for(bench: JobBench, cluster: str, **options: Any) -> SparkEngine:
    placed = placement.read(bench.client, bench.prefix)[cluster]
    return engine_placed(bench, placed, **options)


def engine_placed(bench: JobBench, placed: Placement, **options: Any) -> SparkEngine:
    client, prefix = bench.client, bench.prefix
    data, segments = DataTopic(client, prefix), SealedSegments(client, prefix, placed.cluster)
    return SparkEngine(client, prefix, placed, data, segments, **options)
