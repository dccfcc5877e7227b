"""Records over sockets by our own clients: written, and read where they are committed."""

from collections.abc import Iterable
from itertools import count

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked

GROUPS = count(1)


def written(bootstrap: str, topic: str, messages: Iterable[ProducerRecord]) -> None:
    with Producer(bootstrap, ProducerConfig()) as producer:
        for message in messages:
            producer.send(topic, message)
        assert {type(event) for event in producer.flush(30_000)} == {RecordAcked}


def read_committed(bootstrap: str, topic: str, expected: int) -> list[ProducerRecord]:
    """Read at least this number of records from the start, and those of another half second."""
    fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST, isolation_level=1)
    group = ConsumerConfig(group_id=f"{topic}-{next(GROUPS)}")
    records: list[ProducerRecord] = []
    with Consumer(bootstrap, group, [topic], fetches) as reader:
        while len(records) < expected:
            records += [message for *_, message in reader.poll(1_000)]
        records += [message for *_, message in reader.poll(500)]
    return records
