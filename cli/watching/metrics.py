"""The progress of a running job for Prometheus, at `http://HOST:PORT/metrics`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from brokerstream.errors import UserError

if TYPE_CHECKING:
    from brokerstream.sinks.snapshot_store import Published
    from brokerstream.streaming.measures import Progress

ADDRESS = "127.0.0.1"


class Metrics:
    """Gauges of one job. Counts begin at the job's start; a task that runs again counts again."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rows = Gauge(
            "brokerstream_rows", "Rows since the start", ["topic"], registry=self.registry
        )
        self._plain = {
            name: Gauge(f"brokerstream_{name}", meaning, registry=self.registry)
            for name, meaning in {
                "batch": "Number of the newest micro-batch",
                "batch_events": "Events in the newest micro-batch",
                "batch_seconds": "How long the newest micro-batch took",
                "lag_events": "Events in `requests` that no micro-batch has taken",
                "state_bytes": "State of the cells that were touched since the start",
                "fetch_sessions": "Fetch sessions in the caches of these cells",
                "fetch_session_partitions_cached": "Partitions in these fetch sessions",
                "fetch_session_evictions": "Fetch sessions evicted since the caches began",
                "snapshot_batch": "Micro-batch of the newest snapshot",
                "snapshot_timestamp_seconds": "When it was taken, since 1970",
                "snapshot_seconds": "How long it took",
                "snapshot_offsets": "Committed offsets in it",
            }.items()
        }

        self._snapshots = Gauge(
            "brokerstream_snapshots",
            "Snapshots since the start: published, rejected, failed",
            ["result"],
            registry=self.registry,
        )

    def show_snapshot(self, taken: "Published", seconds: float) -> None:
        """Take over a snapshot that was taken; one that a judge rejects is only counted."""
        self._snapshots.labels("rejected" if taken.reasons else "published").inc()
        if taken.reasons:
            return
        values = {
            "snapshot_batch": taken.snapshot.batch,
            "snapshot_timestamp_seconds": taken.snapshot.taken_ms / 1000,
            "snapshot_seconds": seconds,
            "snapshot_offsets": taken.snapshot.offsets,
        }
        for name, value in values.items():
            self._plain[name].set(value)

    def show_no_snapshot(self) -> None:
        """Count a snapshot that could not be taken."""
        self._snapshots.labels("failed").inc()

    def show(self, progress: "Progress") -> None:
        """Take over where the job stands after a micro-batch."""
        for topic, count in progress.counts.items():
            self._rows.labels(topic).set(count)
        values = {
            "batch": progress.batch,
            "batch_events": progress.events,
            "batch_seconds": progress.seconds,
            "lag_events": progress.lag,
            "state_bytes": progress.state_bytes,
            "fetch_sessions": progress.fetch_sessions.sessions,
            "fetch_session_partitions_cached": progress.fetch_sessions.partitions_cached,
            "fetch_session_evictions": progress.fetch_sessions.evictions,
        }
        for name, value in values.items():
            self._plain[name].set(value)


@contextmanager
def served(metrics: Metrics, option: str, host: str, port: int) -> Iterator[int]:
    """Serve the gauges at an address; gives the port (0 chooses one).

    Args:
        metrics: what is served.
        option: how the user gave the address; an error begins with it.
        host: a name or address of this machine.
        port: 0 to 65535.

    Raises:
        UserError: the port is taken or may not be used, or the host is not this one.
    """
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        hint = "Choose another port, or 0 for any that is free."
        if isinstance(error, PermissionError):
            hint = "Ports below 1024 are for root; choose a higher one, or 0 for any that is free."
        raise UserError(f"{option}: {error.strerror}.", hint) from None
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
