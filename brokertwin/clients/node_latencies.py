"""How long batches have waited for unavailable brokers (KIP-794).

Source: `RecordAccumulator.updateNodeLatencyStats`, `NodeLatencyStats` in Kafka. When a batch is
ready for a broker, the sender records whether the broker accepts it. A disconnected broker or one
with enough in-flight requests does not. The partitioner skips partitions whose leader has kept a
batch waiting longer than `partitioner.availability.timeout.ms`.
"""


class NodeLatencies:
    """Latencies of a producer's brokers; times in ms. 0 disables the check."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._taken_at: dict[int, int] = {}
        self._ready_at: dict[int, int] = {}

    def looked(self, node: int, now: int, *, takes: bool) -> None:
        """Record whether a broker accepts a ready batch."""
        self._ready_at[node] = now
        if takes:
            self._taken_at[node] = now
        else:
            self._taken_at.setdefault(node, now)

    def is_slow(self, node: int | None) -> bool:
        """Whether a broker has kept a batch waiting beyond the timeout."""
        if node is None or node not in self._ready_at or self._timeout_ms <= 0:
            return False
        return self._ready_at[node] - self._taken_at[node] > self._timeout_ms
