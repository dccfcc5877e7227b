"""Events come faster than the job decides them: it lags, answers all, and keeps both its bounds.

Requests written past the gateway are small at first. Then some events are large: a micro-batch with
the maximum number of events would exceed the maximum size.
"""

import json
import time
import uuid
from itertools import pairwise
from typing import NamedTuple

from brokertwin.kafka_io.topic_reader import consumer, end_offsets
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.job.read_ahead import BATCHES
from tests.faults.stand import CELL, Stand
from tests.support.patience import PATIENCE_S, wait_until

EVENTS, OVERLOAD_S, TIMES = 10_000, 20, 3
BATCH_EVENTS, BATCH_BYTES = 2_000, 384 * 1024
"""`max_offsets_per_trigger` and `max_bytes_per_trigger`."""

LARGE_BYTES, LARGE_EVERY = 20_000, 50
NO_TOPIC = {"topics": []}


class Batch(NamedTuple):
    """How much a micro-batch has taken."""

    events: int
    size: int


def overload(stand: Stand) -> None:
    """Events come three times as fast as the job decides them, as far as this machine can."""
    ids = send_requests(stand, EVENTS, LARGE_EVERY)
    rate = EVENTS / wait_until_done(stand)
    before = checkpoint_log.committed(stand.bench.checkpoint)
    most = 0
    first, begin = len(ids), time.monotonic()
    while (passed := time.monotonic() - begin) < OVERLOAD_S:
        ids += send_requests(stand, EVENTS // 5, LARGE_EVERY if passed > OVERLOAD_S / 2 else EVENTS)
        most = max(most, written(stand) - taken(stand))
        time.sleep(max((len(ids) - first) / (TIMES * rate) - passed, 0))
    times = (len(ids) - first) / passed / rate
    assert most > 2 * BATCH_EVENTS, f"it lags by {most} events only, of {times:.1f} times as many"
    drained = wait_until_done(stand)
    responded = {row.id for row in stand.bench.all_rows(outputs.RESPONSES)}
    missing = set(ids) - responded
    assert not missing, f"{len(missing)} of {len(ids)} events are not answered"
    found = batches(stand, before)
    largest = Batch(max(each.events for each in found), max(each.size for each in found))
    assert largest.events <= BATCH_EVENTS, f"a micro-batch of {largest.events} events"
    assert largest.size <= BATCHES * BATCH_BYTES, f"a micro-batch of {largest.size} bytes"
    stand.report(
        f"{rate:.0f} events a second, {times:.1f} times as many for {OVERLOAD_S} s: a lag of"
        f" {most}, drained in {drained:.0f} s, all {len(ids)} answered, in {len(found)}"
        f" micro-batches of at most {largest.events} events and {largest.size} bytes"
    )


def send_requests(stand: Stand, count: int, large_every: int, cluster: str = CELL) -> list[str]:
    """Write requests past the gateway, one in `large_every` large; return their ids."""
    begin = uuid.uuid4()
    ids = [f"{begin}-{number}" for number in range(count)]
    header = {"requestApiKey": 3, "requestApiVersion": 1}
    large = {**header, "clientId": "x" * LARGE_BYTES}
    events = (
        {
            "id": each,
            "cluster": cluster,
            "requestHeader": header if (number + 1) % large_every else large,
            "request": NO_TOPIC,
        }
        for number, each in enumerate(ids)
    )
    stand.bench.produce((json.dumps(event).encode() for event in events), cluster.encode())
    return ids


def batches(stand: Stand, after: int) -> list[Batch]:
    """Return the input of each micro-batch after the given one."""
    bench, topic = stand.bench, requests_of(stand)
    sizes: dict[int, list[int]] = {}
    for row in bench.all_rows(REQUESTS):
        sizes.setdefault(row.partition, []).append(len(row.value or b""))
    newest = checkpoint_log.committed(bench.checkpoint)
    ends = [
        checkpoint_log.end_offsets(bench.checkpoint, batch)[topic]
        for batch in range(after, newest + 1)
    ]
    result = []
    for begin, end in pairwise(ends):
        part = [size for at in end for size in sizes.get(at, [])[begin.get(at, 0) : end[at]]]
        result.append(Batch(len(part), sum(part)))
    return result


def written(stand: Stand) -> int:
    reader = consumer(stand.bench.client)
    try:
        topic, partitions = requests_of(stand), stand.bench.settings.requests_partitions
        return sum(end_offsets(reader, topic, partitions).values())
    finally:
        reader.close()


def taken(stand: Stand) -> int:
    """How many events the committed micro-batches have taken."""
    checkpoint = stand.bench.checkpoint
    newest = checkpoint_log.committed(checkpoint)
    return sum(checkpoint_log.end_offsets(checkpoint, newest).get(requests_of(stand), {}).values())


def requests_of(stand: Stand) -> str:
    return full_name(stand.bench.prefix, REQUESTS)


def wait_until_done(stand: Stand) -> float:
    """Until every event is decided that is there now; how long it took, in seconds."""
    begin, there = time.monotonic(), written(stand)
    wait_until(lambda: taken(stand) >= there, "the job lags", 4 * PATIENCE_S)
    return time.monotonic() - begin
