"""`brokertwin offsets shares`: a real broker's data of share groups (KIP-932)."""

import json
import time
from secrets import token_hex
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.kafka_io import topics
from brokertwin.protocol.errors import Error
from tests.support.console import brokertwin
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S

RECORDS = 10
SHARE = 2
"""The kind of a share group's coordinator."""

RETRIED = {Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}
RETRIED |= {Error.NOT_COORDINATOR}


def topic_of(bootstrap: str) -> tuple[str, str]:
    """Makes a topic with its records; gives back its name and its id in Kafka's letters.

    Half of all ids have a letter in which the alphabets of base64 differ; this one does.
    """
    admin, producer = (kind({"bootstrap.servers": bootstrap}) for kind in (AdminClient, Producer))
    topic_id = topic = ""
    while not {"-", "_"} & {*topic_id}:
        topic = f"jobs-{token_hex(3)}"
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
        topic_id = topics.topic_id(admin, topic).replace("+", "-").replace("/", "_")
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return topic, topic_id


def settled(client: Client, api: str, version: int, body: Any, codes: Any) -> None:
    """Asks until the coordinator is there; then it has to have taken it."""
    deadline = time.monotonic() + PATIENCE_S
    while (actual := set(codes(client.call(api, version, body)))) & RETRIED:
        assert time.monotonic() < deadline, actual
        time.sleep(0.1)
    assert actual == {Error.NONE}


def of_states(response: Any) -> list[int]:
    return [part["errorCode"] for each in response["results"] for part in each["partitions"]]


@pytest.mark.kafka
def test_shares_shows_state_written_by_a_leader(kafka: str) -> None:
    """A leader keeps how far a group is at the share coordinator; here a test is the leader."""
    topic, topic_id = topic_of(kafka)
    group = f"of-{topic}"
    host, port = kafka.split(":")

    def state(**fields: Any) -> Any:
        part = {"partition": 0, "stateEpoch": 1, **fields}
        return {"groupId": group, "topics": [{"topicId": topic_id, "partitions": [part]}]}

    with Client((host, int(port))) as client:
        key = {"keyType": SHARE, "coordinatorKeys": [f"{group}:{topic_id}:0"]}
        settled(
            *(client, "FIND_COORDINATOR", 6, key),
            lambda response: [each["errorCode"] for each in response["coordinators"]],
        )
        begun = state(startOffset=0)
        settled(client, "INITIALIZE_SHARE_GROUP_STATE", 0, begun, of_states)
        for start, batches in ((0, [(0, 5, 0, 1)]), (2, [(2, 2, 4, 5), (3, 4, 2, 2)])):
            names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
            reported = [dict(zip(names, batch, strict=True)) for batch in batches]
            done = {"leaderEpoch": 0, "deliveryCompleteCount": 3 if start else 0}
            written = state(startOffset=start, stateBatches=reported, **done)
            settled(client, "WRITE_SHARE_GROUP_STATE", 1, written, of_states)
    shown = brokertwin("offsets", "shares", kafka, "--group", group, "--json")
    assert shown.returncode == 0, shown.stderr
    (row,) = (json.loads(line) for line in shown.stdout.splitlines())
    assert [tuple(batch.values()) for batch in row.pop("batches")] == [
        *((2, 2, "archived", 5), (3, 4, "acknowledged", 2), (5, 5, "available", 1)),
    ]
    where = {"group": group, "topic": topic, "partition": 0}
    assert row == where | {"start": 2, "lag": RECORDS - 2 - 3}
    table = brokertwin("offsets", "shares", kafka, "--group", group).stdout
    assert "2 archived, delivered 5 times; 3 to 4 acknowledged" in " ".join(table.split())
    lacking = brokertwin("offsets", "shares", kafka, "--group", "nobody")
    assert (lacking.returncode, lacking.stdout) == (2, "")
    assert "has no state of the share groups nobody" in lacking.stderr
