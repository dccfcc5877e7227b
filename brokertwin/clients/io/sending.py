"""Ways to send the messages of an iterator: in order, from several threads, in transactions."""

import threading
from collections.abc import Callable, Iterable, Iterator

from brokertwin.clients.io.producer import BlockedError
from brokertwin.clients.io.shared_producer import SharedProducer
from brokertwin.clients.io.worker_threads import WorkerThreads
from brokertwin.clients.messages import ProducerRecord
from brokertwin.wording import counted

Send = Callable[[ProducerRecord], None]


def send_all(
    producer: SharedProducer,
    topic: str,
    messages: Iterator[ProducerRecord],
    partition: int | None,
    threads: int | None,
    transaction_size: int | None,
    say: Callable[[str], None],
) -> None:
    """Send messages; `say` gets the number of transactions. Raises UserError."""

    def send(message: ProducerRecord) -> None:
        producer.send(topic, message, partition)

    if producer.client.transactions is not None:
        _in_transactions(producer, send, messages, transaction_size, say)
    elif threads is not None:
        _from_threads(send, messages, threads)
    else:
        for message in messages:
            send(message)


def _from_threads(send: Send, messages: Iterator[ProducerRecord], count: int) -> None:
    reading = threading.Lock()

    def run() -> None:
        while not users.is_over.is_set():
            with reading:
                message = next(messages, None)
            if message is None:
                return
            send(message)

    users = WorkerThreads({f"user-{number}": run for number in range(1, count + 1)})
    users.start()
    users.join()
    users.check()


def _in_transactions(
    producer: SharedProducer,
    send: Send,
    messages: Iterable[ProducerRecord],
    size: int | None,
    say: Callable[[str], None],
) -> None:
    """Send in transactions of `size`; Ctrl-C and errors of a record abort the open one."""
    producer.init_transactions()
    count = transactions = 0
    try:
        for message in messages:
            if count == 0:
                producer.begin_transaction()
            send(message)
            count += 1
            if count == size:
                producer.commit_transaction()
                count, transactions = 0, transactions + 1
    except (KeyboardInterrupt, BlockedError):
        if count:
            producer.abort_transaction()
            say(f"aborted a transaction of {counted(count, 'record')}")
        raise
    if count:
        producer.commit_transaction()
        transactions += 1
    say(f"committed {counted(transactions, 'transaction')}")
