"""Metadata of a producer, shared between application threads and its sender.

`clients/metadata.py` decides; this adds a lock, a clock and blocking waits. Source: seed 001
(`synchronized`, `wait`, `notifyAll` in `Metadata`), `ProducerMetadata.awaitUpdate` and
`KafkaProducer.waitOnMetadata` in Kafka.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from brokertwin.clients.metadata import MetadataError, MetadataSettings, ProducerMetadata
from brokertwin.clients.metadata_wait import (
    MetadataKnown,
    MetadataUnavailable,
    MetadataWait,
    WaitFor,
)
from brokertwin.clients.network import NetworkClient, NetworkSettings
from brokertwin.state.core.errors import Error, error_name

Clock = Callable[[], int]
"""A monotonic clock in ms."""


def monotonic_ms() -> int:
    """The machine's monotonic clock in ms."""
    return time.monotonic_ns() // 1_000_000


class MetadataWaitError(Exception):
    """A failed wait.

    Attributes:
        code: Kafka's error; REQUEST_TIMED_OUT after a timeout.
        cause: the error code of the topic, or 0.
    """

    def __init__(self, code: Error, message: str, cause: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause


class MetadataShell:
    """Metadata and network loop of a producer behind one lock.

    `wake_sender` is called without the lock when the sender has something to request.
    """

    def __init__(
        self,
        wake_sender: Callable[[], None],
        settings: MetadataSettings | None = None,
        network: NetworkSettings | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._metadata = ProducerMetadata(settings)
        self._network = NetworkClient(self._metadata, random.random, network)
        self._changed = threading.Condition()
        self._wake_sender = wake_sender
        self._clock = clock

    @contextmanager
    def locked(self) -> Iterator[NetworkClient]:
        """Yield the network loop for the sender; waiters check again on exit."""
        with self._changed:
            yield self._network
            self._changed.notify_all()

    @property
    def metadata(self) -> ProducerMetadata:
        """The metadata; use it only inside `locked`."""
        return self._metadata

    @property
    def update_version(self) -> int:
        """The number of updates."""
        with self._changed:
            return self._metadata.update_version

    def request_update(self) -> int:
        """Request a full update; returns the version to wait beyond."""
        with self._changed:
            version = self._metadata.request_update()
        self._wake_sender()
        return version

    def await_update(self, last_version: int, max_wait_ms: int) -> int:
        """Block until the version is above `last_version`, and return it.

        Raises MetadataWaitError for a fatal error, after `close`, and with REQUEST_TIMED_OUT after
        `max_wait_ms`.
        """
        deadline = self._clock() + max_wait_ms
        with self._changed:
            while True:
                error = self._metadata.take_fatal_error()
                if error is not None:
                    raise MetadataWaitError(error.code, error_name(error.code))
                if self._metadata.is_closed:
                    raise MetadataWaitError(Error.UNKNOWN_SERVER_ERROR, "the metadata is closed")
                if self._metadata.update_version > last_version:
                    return self._metadata.update_version
                self._wait_until(deadline, f"no update of the metadata within {max_wait_ms} ms")

    def wait_on_metadata(
        self, topic: str, partition: int | None, max_wait_ms: int
    ) -> MetadataKnown:
        """Block until a topic, and its partition if given, is known.

        Raises MetadataWaitError for an error of the topic, after a timeout, and after `close`.
        """
        with self._changed:
            wait = MetadataWait(self._metadata, topic, partition, max_wait_ms)
            step = wait.start(self._clock())
        while isinstance(step, WaitFor):
            self._wake_sender()
            with self._changed:
                self._wait_for(step)
                step = wait.resume(self._clock())
        if isinstance(step, MetadataUnavailable):
            raise MetadataWaitError(step.code, step.message, step.cause)
        return step

    def fail(self, error: MetadataError) -> None:
        """Set a fatal error for the next waiter."""
        with self.locked():
            self._metadata.fatal_error = error

    def close(self) -> None:
        """End every wait and reject further updates."""
        with self.locked():
            self._metadata.close()

    def _wait_for(self, step: WaitFor) -> None:
        """Wait, releasing the lock, for the version, an error or `close`."""
        self._changed.wait_for(
            lambda: (
                self._metadata.update_version > step.version
                or self._metadata.is_closed
                or self._metadata.fatal_error is not None
            ),
            step.remaining_ms / 1000,
        )

    def _wait_until(self, deadline: int, message: str) -> None:
        remaining = deadline - self._clock()
        if remaining <= 0:
            raise MetadataWaitError(Error.REQUEST_TIMED_OUT, message)
        self._changed.wait(remaining / 1000)
