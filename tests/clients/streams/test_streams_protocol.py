"""What threads of Streams tell each other: read as it was written, by us and by Kafka's classes.

`StreamsBytes.java` beside this file asks those. `EXAMPLES=10` tries ten times as many.
"""

import base64
import json
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
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
from tests.support.kafka_tools import streams_command

DRIVER = Path(__file__).with_name("StreamsBytes.java")
ASKED = examples(150)

Info = SubscriptionInfo | AssignmentInfo

numbers = st.integers(0, 2**31 - 1)
tasks = st.builds(TaskId, st.integers(0, 9), numbers)
names = st.text("abz09._-", min_size=1, max_size=8)  # what Kafka takes as a topic's name
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
def test_what_was_written_is_read(info: Info) -> None:
    assert decoded(info, encoded(info)) == info


@settings(max_examples=examples(20))
@given(infos, st.data())
def test_what_is_cut_off_or_of_another_version_is_refused(info: Info, data: st.DataObject) -> None:
    whole = encoded(info)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"bytes expected at|items in|UTF-8"):
        decoded(info, whole[:cut])
    with pytest.raises(ValueError, match="in version 12, not 11"):
        decoded(info, b"\0\0\0\x0c" + whole[4:])


def drawn() -> list[Info]:
    """As many as Java is asked of."""
    found: list[Info] = []

    @settings(max_examples=ASKED, database=None)
    @given(infos)
    def take(info: Info) -> None:
        found.append(info)

    take()
    return found


def javas_answers(asked: Iterable[Info]) -> list[dict[str, Any]]:
    """What Kafka's own classes read of our bytes."""
    lines = [
        {
            "kind": "subscription" if isinstance(info, SubscriptionInfo) else "assignment",
            "data": base64.b64encode(encoded(info)).decode(),
        }
        for info in asked
    ]
    done = subprocess.run(
        [*streams_command(), str(DRIVER)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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


def in_order(told: Mapping[str, Any]) -> dict[str, Any]:
    """What Java tells; the order of its sets means nothing."""
    return {
        name: {key: sorted(each) for key, each in value.items()}
        if name in ("standby", "hosts", "standbyHosts")
        else sorted(value)
        if name == "running"
        else value
        for name, value in told.items()
    }


def sorted_parts(info: Info) -> Info:
    """The order of what are sets in Java means nothing."""
    if isinstance(info, SubscriptionInfo):
        return info
    return AssignmentInfo(
        active=info.active,
        standby={task: sorted(at) for task, at in info.standby.items()},
        hosts={host: sorted(at) for host, at in info.hosts.items()},
        standby_hosts={host: sorted(at) for host, at in info.standby_hosts.items()},
        error_code=info.error_code,
    )


@pytest.mark.kafka
def test_java_reads_our_bytes_and_we_read_what_java_writes() -> None:
    asked = drawn()
    assert {type(info) for info in asked} == {SubscriptionInfo, AssignmentInfo}
    for info, told in zip(asked, javas_answers(asked), strict=True):
        again = base64.b64decode(told.pop("again"))
        assert in_order(told) == in_javas_words(info)
        assert sorted_parts(decoded(info, again)) == sorted_parts(info)
        assert len(again) == len(encoded(info))
