"""What threads of Streams tell each other: read as it was written, by us and by Kafka's classes.

`StreamsBytes.java` beside this file asks those. `GOLDENS=compare EXAMPLES=1000` tries as many.
"""

import base64
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import TaskId
from brokertwin.clients.streams.streams_protocol import (
    ACTIVE,
    NO_REBALANCE_MS,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    decode_assignment_info,
    decode_subscription_info,
    encode_assignment_info,
    encode_subscription_info,
)
from tests.support.examples import examples
from tests.support.java_responses import inputs, java_responses, json_from_java
from tests.support.kafka_tools import streams_command

DRIVER = Path(__file__).with_name("StreamsBytes.java")
REQUESTED = 150

NAME = "abz09._-"
"""Letters of topics."""

Info = SubscriptionInfo | AssignmentInfo

numbers = st.integers(0, 2**31 - 1)
tasks = st.builds(TaskId, st.integers(0, 9), numbers)
names = st.text(NAME, min_size=1, max_size=8)
partitions = st.lists(st.builds(TopicPartition, names, numbers), max_size=3, unique=True)
hosts = st.builds(HostInfo, st.text("ab.-", min_size=1, max_size=5), st.integers(0, 65535))
by_host = st.dictionaries(hosts, partitions, max_size=3)
subscriptions = st.builds(
    SubscriptionInfo,
    process_id=st.uuids().map(lambda each: base64.urlsafe_b64encode(each.bytes).decode()[:22]),
    user_end_point=st.none() | hosts,
    offset_sums=st.dictionaries(tasks, st.just(ACTIVE) | st.integers(-1, 2**63 - 1), max_size=4),
    unique=st.integers(-128, 127),
    error_code=st.integers(-(2**31), 2**31 - 1),
)
assignments = st.builds(
    AssignmentInfo,
    active=st.lists(tasks, max_size=4),
    standby=st.dictionaries(tasks, partitions, max_size=3),
    hosts=by_host,
    standby_hosts=by_host,
    error_code=st.integers(0, 4),
)
infos = subscriptions | assignments


def encoded(info: Info) -> bytes:
    if isinstance(info, SubscriptionInfo):
        return encode_subscription_info(info)
    return encode_assignment_info(info)


def decoded(info: Info, data: bytes) -> Info:
    """The bytes as of the same kind."""
    if isinstance(info, SubscriptionInfo):
        return decode_subscription_info(data)
    return decode_assignment_info(data)


@settings(max_examples=examples(50))
@given(infos)
def test_encoded_values_are_decoded(info: Info) -> None:
    assert decoded(info, encoded(info)) == info


@settings(max_examples=examples(20))
@given(infos, st.data())
def test_truncated_or_unknown_versions_are_rejected(info: Info, data: st.DataObject) -> None:
    whole = encoded(info)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"end too early|bytes are there|length -"):
        decoded(info, whole[:cut])
    with pytest.raises(ValueError, match="in version 12, not 11"):
        decoded(info, b"\0\0\0\x0c" + whole[4:])


class Draw:
    """Draws of `infos` that are the same with every version of Hypothesis."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)

    def info(self) -> Info:
        chance = self._chance
        if chance.random() < 0.5:
            return SubscriptionInfo(
                process_id=base64.urlsafe_b64encode(chance.randbytes(16)).decode()[:22],
                user_end_point=chance.choice([None, self._host()]),
                offset_sums={
                    self._task(): chance.choice([ACTIVE, -1, 0, self._number(63)])
                    for _ in range(chance.randint(0, 4))
                },
                unique=chance.randint(-128, 127),
                error_code=chance.choice([0, -(2**31), self._number(31)]),
            )
        return AssignmentInfo(
            active=[self._task() for _ in range(chance.randint(0, 4))],
            standby={self._task(): self._partitions() for _ in range(chance.randint(0, 3))},
            hosts=self._by_host(),
            standby_hosts=self._by_host(),
            error_code=chance.randint(0, 4),
        )

    def _number(self, bits: int) -> int:
        return self._chance.getrandbits(self._chance.randint(1, bits))

    def _task(self) -> TaskId:
        return TaskId(self._chance.randint(0, 9), self._number(31))

    def _text(self, letters: str, most: int) -> str:
        return "".join(self._chance.choices(letters, k=self._chance.randint(1, most)))

    def _host(self) -> HostInfo:
        return HostInfo(self._text("ab.-", 5), self._number(16))

    def _partitions(self) -> list[TopicPartition]:
        count = self._chance.randint(0, 3)
        found = [TopicPartition(self._text(NAME, 8), self._number(31)) for _ in range(count)]
        return list(dict.fromkeys(found))

    def _by_host(self) -> dict[HostInfo, list[TopicPartition]]:
        return {self._host(): self._partitions() for _ in range(self._chance.randint(0, 3))}


def request_line(info: Info) -> str:
    kind = "subscription" if isinstance(info, SubscriptionInfo) else "assignment"
    return json.dumps({"kind": kind, "data": base64.b64encode(encoded(info)).decode()})


def responses_of_java(requests: Sequence[str]) -> list[Any]:
    """Return what Kafka's own classes read of our bytes."""
    return json_from_java(DRIVER, requests, streams_command())


def in_javas_words(info: Info) -> dict[str, Any]:
    """What its classes have to tell."""
    if isinstance(info, SubscriptionInfo):
        raw = base64.urlsafe_b64decode(f"{info.process_id}==")
        return {
            "versions": "11/11",
            "processId": str(uuid.UUID(bytes=raw)),
            "userEndPoint": str(info.user_end_point) if info.user_end_point else None,
            "errorCode": info.error_code,
            "offsetSums": {str(task): each for task, each in info.offset_sums.items()},
            "running": sorted(str(task) for task, at in info.offset_sums.items() if at == ACTIVE),
        }
    return {
        "versions": "11/11",
        "errorCode": info.error_code,
        "nextRebalanceMs": NO_REBALANCE_MS,
        "active": [str(task) for task in info.active],
        "standby": {str(task): _texts(at) for task, at in info.standby.items()},
        "hosts": {str(host): _texts(at) for host, at in info.hosts.items()},
        "standbyHosts": {str(host): _texts(at) for host, at in info.standby_hosts.items()},
    }


def _texts(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted(f"{at.topic}-{at.partition}" for at in partitions)


def in_order(result: Mapping[str, Any]) -> dict[str, Any]:
    """What Java tells; the order of its sets means nothing."""
    return {
        name: {key: sorted(each) for key, each in value.items()}
        if name in ("standby", "hosts", "standbyHosts")
        else sorted(value)
        if name == "running"
        else value
        for name, value in result.items()
    }


def sorted_parts(info: Info) -> Info:
    """Sort the fields that are sets in Java."""
    if isinstance(info, SubscriptionInfo):
        return info
    return AssignmentInfo(
        active=info.active,
        standby={task: sorted(at) for task, at in info.standby.items()},
        hosts={host: sorted(at) for host, at in info.hosts.items()},
        standby_hosts={host: sorted(at) for host, at in info.standby_hosts.items()},
        error_code=info.error_code,
    )


@pytest.mark.compares
def test_java_and_we_decode_each_others_bytes() -> None:
    requests = [Draw(seed).info() for seed in range(inputs(REQUESTED))]
    assert {type(info) for info in requests} == {SubscriptionInfo, AssignmentInfo}
    queries = [request_line(info) for info in requests]
    responses = java_responses("clients/streams_protocol", queries, responses_of_java)
    for info, reported in zip(requests, responses, strict=True):
        again = base64.b64decode(reported.pop("again"))
        assert in_order(reported) == in_javas_words(info)
        assert sorted_parts(decoded(info, again)) == sorted_parts(info)
        assert len(again) == len(encoded(info))
