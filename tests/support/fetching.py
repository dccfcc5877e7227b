"""A consumer's fetching half on the bench: the client's session handler against a real cell."""

from typing import Any

import msgspec

from brokertwin.clients.fetch_session import (
    FetchRequestData,
    FetchSessionHandler,
    PartitionData,
    ResponseCheck,
)
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.generated.fetch import FetchResponse
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.fetch.session_items import FetchSession
from brokertwin.state.fetch.shards import ShardLayout
from tests.support.machine import Bench

LATEST = 17
"""The version of Fetch that the client sends where it knows the topics' ids."""


class FetchClient:
    """A client that fetches some partitions and keeps their last responses.

    Attributes:
        wanted: the currently fetched partitions in order, with the request data of each.
        high_watermarks: the last accepted value of each partition.
        errors: the error of each partition in the last accepted response.
    """

    def __init__(self, bench: Bench, latest: int = LATEST) -> None:
        self.bench = bench
        self.latest = latest
        self.handler = FetchSessionHandler()
        self.wanted: dict[TopicPartition, PartitionData] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.errors: dict[TopicPartition, int] = {}
        self.last: FetchRequestData | None = None

    def next_request(self) -> tuple[dict[str, Any], int]:
        builder = self.handler.builder()
        for partition, data in self.wanted.items():
            builder.add(partition, data)
        self.last = builder.build()
        version = self.last.version(self.latest)
        body = self.last.request(version)
        return msgspec.to_builtins(body), version

    def take(self, reply: dict[str, Any], version: int) -> ResponseCheck:
        """Takes a response: where it counts, moves on past the batches in it."""
        response = msgspec.convert(reply, FetchResponse)
        names = dict(self.handler.session_topic_names)
        verdict = self.handler.handle_response(response, version)
        if not verdict.is_accepted:
            return verdict
        for topic in response.responses:
            name = names[topic.topic_id] if version >= 13 else topic.topic
            for responded in topic.partitions:
                partition = TopicPartition(name, responded.partition_index)
                self.high_watermarks[partition] = responded.high_watermark
                self.errors[partition] = responded.error_code
                if responded.batches:
                    fetch_offset = self.wanted[partition].fetch_offset
                    assert responded.batches[0].base_offset == fetch_offset, partition
                    self.move(partition, responded.batches[-1].last_offset + 1)
        return verdict

    def move(self, partition: TopicPartition, offset: int) -> None:
        data = self.wanted[partition]
        self.wanted[partition] = msgspec.structs.replace(data, fetch_offset=offset)

    def exchange(self, **event: Any) -> ResponseCheck:
        body, version = self.next_request()
        response = self.bench.request("FETCH", version, body, **event)
        assert response is not None, "the request waits"
        return self.take(response, version)


def cache(bench: Bench) -> SessionCache:
    settings = bench.settings.broker_settings
    layout = ShardLayout.of(settings)
    table = bench.cell.tables.fetch_sessions
    return SessionCache(table, bench.settings.brokers[0], layout, bench.now)


def session(bench: Bench, session_id: int) -> FetchSession:
    session = cache(bench).session(session_id)
    assert session is not None, session_id
    return session
