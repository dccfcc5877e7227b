"""`brokertwin produce --threads`: threads that share a producer and the input."""

import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.clients.io.shared_producer import SharedProducer
    from brokertwin.clients.messages import ProducerRecord


def send_from_threads(
    producer: "SharedProducer",
    topic: str,
    messages: "Iterator[ProducerRecord]",
    partition: int | None,
    count: int,
) -> None:
    """Send messages from `count` threads. Raises BlockedError and UserError of a thread."""
    from brokertwin.clients.io.producer import BlockedError

    reading = threading.Lock()
    errors: queue.SimpleQueue[BlockedError | UserError] = queue.SimpleQueue()

    def send() -> None:
        try:
            while errors.empty():
                with reading:
                    message = next(messages, None)
                if message is None:
                    return
                producer.send(topic, message, partition)
        except (BlockedError, UserError) as error:
            errors.put(error)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if not errors.empty():
        raise errors.get()
