"""Our consumer in one group with Java's, on Kafka and on a gateway.

`GroupMember.java` beside this file is Java's member.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.consumer_config import GroupProtocol
from tests.clients.io.test_consumer_members import fill, gateway, places, shared, topic_at
from tests.gateway.test_group_clients import poll_until
from tests.support.kafka_tools import streams_command
from tests.support.patience import PATIENCE_S
from tests.support.socket_members import OurMember

__all__ = ["gateway"]

pytestmark = pytest.mark.kafka

DRIVER = Path(__file__).with_name("GroupMember.java")
ASSIGNORS = "org.apache.kafka.clients.consumer"
CLASSES = {
    AssignorName.STICKY: f"{ASSIGNORS}.StickyAssignor",
    AssignorName.COOPERATIVE_STICKY: f"{ASSIGNORS}.CooperativeStickyAssignor",
}


class JavaMember:
    """A member of the group that is named like its topic; polled like the others."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        words = [f"{name}={value}" for name, value in options.items()]
        self._java = subprocess.Popen(
            [*streams_command(), str(DRIVER), topic, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._owned: set[int] = set()

    def poll(self) -> list[bytes]:
        """Return the records read, as `partition@offset`."""
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.write("\n")
        self._java.stdin.flush()
        line = self._java.stdout.readline()
        assert line, "Java's member has ended"
        owned, _, read = line.rstrip("\n").partition("|")
        self._owned = set(map(int, owned.split()))
        return [each.encode() for each in read.split()]

    def assigned(self) -> set[int]:
        return self._owned

    def close(self) -> None:
        self._java.communicate(timeout=PATIENCE_S)


Settings = tuple[dict[str, Any], list[AssignorName], dict[str, Any]]
"""Java's member settings, and our assignors and settings."""


def classic(assignor: AssignorName) -> Settings:
    theirs = {"partition_assignment_strategy": CLASSES[assignor], "heartbeat_interval_ms": 100}
    return theirs, [assignor], {}


MODERN: Settings = (
    {"group_protocol": "consumer"},
    [AssignorName.RANGE],
    {"group_protocol": GroupProtocol.CONSUMER},
)


STICKY, COOPERATIVE = map(classic, CLASSES)


@pytest.mark.parametrize(
    ("broker", "settings"),
    [
        pytest.param("kafka", STICKY, id="sticky-kafka"),
        pytest.param("gateway", COOPERATIVE, id="cooperative-sticky-gateway"),
        pytest.param("kafka", MODERN, id="consumer-kafka"),
        pytest.param("gateway", MODERN, id="consumer-gateway"),
    ],
)
def test_javas_member_and_ours_read_each_record_once(
    request: pytest.FixtureRequest, broker: str, settings: Settings
) -> None:
    """Java's member leads, then ours, then both; each continues at the other's commits."""
    bootstrap = str(request.getfixturevalue(broker))
    of_java, assignors, of_ours = settings
    topic = topic_at(bootstrap, "with-java")
    fill(bootstrap, topic, 20)
    java = JavaMember(bootstrap, topic, **of_java)
    read = poll_until([java], lambda got: len(got) >= 20 * 6)
    ours = OurMember(bootstrap, topic, *assignors, **of_ours)
    shared([java, ours], 3, 3)
    fill(bootstrap, topic, 10)
    read += poll_until([java, ours], lambda got: len(got) >= 10 * 6)
    java.close()
    shared([ours], 6)
    again = JavaMember(bootstrap, topic, **of_java)
    shared([ours, again], 3, 3)
    fill(bootstrap, topic, 10)
    read += poll_until([ours, again], lambda got: len(got) >= 10 * 6)
    for member in (ours, again):
        member.close()
    assert sorted(read) == places(0, 40)
