"""How long batches have waited for brokers that take none (KIP-794).

Source: `RecordAccumulator.updateNodeLatencyStats`, `NodeLatencyStats` in Kafka. Each time that a
batch is ready for a broker this hears whether it takes one: not one that is away, or that has
enough requests under way. Partitions whose leader has kept a batch waiting for longer than
`partitioner.availability.timeout.ms` are not drawn (`partitioner.py`) until it takes one.
"""


class NodeLatencies:
    """Of one producer's brokers; times in ms. Nobody is slow where the time-out is 0."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._taken_at: dict[int, int] = {}
        self._ready_at: dict[int, int] = {}

    def looked(self, node: int, now: int, *, takes: bool) -> None:
        """A batch is ready for a broker, which takes it or does not."""
        self._ready_at[node] = now
        if takes:
            self._taken_at[node] = now
        else:
            self._taken_at.setdefault(node, now)

    def is_slow(self, node: int | None) -> bool:
        """Whether a broker has kept a batch waiting for longer than the time-out."""
        if node is None or node not in self._ready_at or self._timeout_ms <= 0:
            return False
        return self._ready_at[node] - self._taken_at[node] > self._timeout_ms
