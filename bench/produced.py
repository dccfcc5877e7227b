"""Produce requests of idempotent producers, for the benches of the job."""

from typing import Any

import msgspec

from brokertwin.kafka_io import topics
from brokertwin.sinks.topic_writer import NewRow, write_all
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES, Position
from brokertwin.state.core.settings import CellSettings

START = 1_700_000_000_000
PARTITIONS = 16
REQUESTS_PARTITIONS = 4


def topic(cluster: str) -> bytes:
    """Return a cluster's first event, which creates its topic."""
    named = {"name": "orders", "numPartitions": PARTITIONS, "replicationFactor": 1}
    return event(cluster, 0, 19, 7, {"topics": [named], "timeoutMs": 1000})


def request(cluster: str, number: int, sequence: int, producers: int = PARTITIONS) -> bytes:
    """Return a Produce of one record; producers and their partitions take turns."""
    producer = number % producers
    partition = producer % PARTITIONS
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": 0,
        "recordCount": 1,
        "sizeInBytes": 100,
        "producerId": producer,
        "producerEpoch": 0,
        "baseSequence": sequence,
        "maxTimestamp": START + number,
    }
    produced = {"name": "orders", "partitionData": [{"index": partition, "batches": [batch]}]}
    return event(cluster, number + 1, 0, 11, {"acks": -1, "topicData": [produced]})


def event(cluster: str, number: int, key: int, version: int, body: dict[str, Any]) -> bytes:
    """Return an event as an edge writes it."""
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "bench"}
    return msgspec.json.encode(
        {
            "id": f"{cluster}-{number}",
            "cluster": cluster,
            "broker": 1,
            "time": START + number,
            "connection": "c1",
            "nonce": f"{cluster}-{number}",
            "requestHeader": {**header, "correlationId": number},
            "request": body,
        }
    )


def documents(cluster: str, requests: int) -> list[bytes]:
    """Return a cluster's events: topic creation, then Produces."""
    produced = (request(cluster, each, each // PARTITIONS) for each in range(requests))
    return [topic(cluster), *produced]


def answers_of_a_cell(cluster: str, events: list[bytes]) -> dict[str, bytes | None]:
    """Return the responses of one process's cell, by id."""
    cell = Cell(CellSettings(name=cluster, cluster=cluster, event_time="recorded"))
    return {
        row.id: row.value
        for offset, document in enumerate(events)
        for row in cell.handle(document, Position(0, offset))
        if row.topic == RESPONSES
    }


def send(job: Any, cluster: str, events: list[bytes]) -> None:
    partition = partition_of(cluster.encode(), job.settings.requests_partitions)
    rows = (NewRow(cluster, document, partition) for document in events)
    write_all(job.client, topics.full_name(job.settings.prefix, topics.REQUESTS), rows)
