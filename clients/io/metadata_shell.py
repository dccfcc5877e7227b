"""One client's metadata shared by threads: users wait for topics, the sender brings the answers.

`clients/metadata.py` decides; this adds the lock, the clock and the waiting. Source: seed 001
(`synchronized`, `wait`, `notifyAll` in `Metadata`), `ProducerMetadata.awaitUpdate` and
`KafkaProducer.waitOnMetadata` in Kafka.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from brokertwin.clients.metadata import MetadataError, MetadataSettings, ProducerMetadata
from brokertwin.clients.metadata_wait import Failed, Known, MetadataWait, WaitFor
from brokertwin.clients.network import NetworkClient, NetworkSettings
from brokertwin.state.core.errors import Error, error_name

Clock = Callable[[], int]
"""Gives ms that never go back."""


def monotonic_ms() -> int:
    """The machine's monotonic clock in ms."""
    return time.monotonic_ns() // 1_000_000


class MetadataWaitError(Exception):
    """A wait ended without what was wanted.

    Attributes:
        code: Kafka's error; REQUEST_TIMED_OUT where the time was over.
        cause: the error of the topic itself, 0 where there is none.
    """

    def __init__(self, code: Error, message: str, cause: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.cause = cause


class MetadataShell:
    """Metadata and network loop of a producer behind one lock.

    `wake_sender` is called, outside the lock, when the sender has something new to ask.
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
        """The network loop and its metadata for the sender; on leaving, waiters look again."""
        with self._changed:
            yield self._network
            self._changed.notify_all()

    @property
    def metadata(self) -> ProducerMetadata:
        """The metadata; only to be touched inside `locked`."""
        return self._metadata

    @property
    def update_version(self) -> int:
        """How many updates there were."""
        with self._changed:
            return self._metadata.update_version

    def request_update(self) -> int:
        """Asks for a full update and wakes the sender; the version to wait beyond."""
        with self._changed:
            version = self._metadata.request_update()
        self._wake_sender()
        return version

    def await_update(self, last_version: int, max_wait_ms: int) -> int:
        """Blocks until there is a version above `last_version`; gives back that version.

        Raises MetadataWaitError for a fatal error, when the metadata is closed, and with
        REQUEST_TIMED_OUT after `max_wait_ms`.
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

    def wait_on_metadata(self, topic: str, partition: int | None, max_wait_ms: int) -> Known:
        """Blocks until a topic, and its partition if one is given, is known.

        Raises MetadataWaitError where the topic has an error, or time is over, or it is closed.
        """
        with self._changed:
            wait = MetadataWait(self._metadata, topic, partition, max_wait_ms)
            step = wait.start(self._clock())
        while isinstance(step, WaitFor):
            self._wake_sender()
            with self._changed:
                self._wait_for(step)
                step = wait.resume(self._clock())
        if isinstance(step, Failed):
            raise MetadataWaitError(step.code, step.message, step.cause)
        return step

    def fail(self, error: MetadataError) -> None:
        """A fatal error, which the next waiter is told."""
        with self.locked():
            self._metadata.fatal_error = error

    def close(self) -> None:
        """Ends every wait; no update is taken any more."""
        with self.locked():
            self._metadata.close()

    def _wait_for(self, step: WaitFor) -> None:
        """Waits while holding the lock: until the version is there, or something ends the wait."""
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
