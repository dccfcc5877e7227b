"""Groups for assignors, drawn at random, and the assignments of Kafka's classes.

The classes run in one Java process, reached over Py4J, which comes with PySpark. They receive each
member's subscription in bytes and return the assignment in bytes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from brokertwin.clients.assignors.assign import AssignorName, user_data
from brokertwin.clients.assignors.group import Assignment, Subscription
from brokertwin.clients.consumer_protocol import decode_assignment, encode_subscription
from brokertwin.clients.partitions import TopicPartition

CLASSES = {
    AssignorName.RANGE: "RangeAssignor",
    AssignorName.ROUNDROBIN: "RoundRobinAssignor",
    AssignorName.STICKY: "StickyAssignor",
    AssignorName.COOPERATIVE_STICKY: "CooperativeStickyAssignor",
}


class Input(NamedTuple):
    """Input of a leader: the topics' partitions and the members' subscriptions."""

    name: AssignorName
    counts: dict[str, int]
    members: dict[str, Subscription]


def draw_input(random: Random, *, keeps_topics: bool = True) -> Input:
    """A group that already has assignments, some of them from older generations.

    `keeps_topics`: no member owns a partition of a topic that it has unsubscribed.
    """
    name = random.choice(list(AssignorName))
    topics = random.sample([f"{word}-{at}" for word in ("orders", "t") for at in range(4)], 5)
    counts = {topic: random.choice((0, 1, 2, 3, 5, 8, 20)) for topic in topics[:-1]}
    members = [f"consumer-{random.getrandbits(40):x}" for _ in range(random.randint(1, 7))]
    everything = random.sample(topics, random.randint(1, 5))
    are_equal = random.random() < 0.6
    wanted = {
        member: everything if are_equal else random.sample(topics, random.randint(1, 5))
        for member in members
    }
    owned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for partition in (TopicPartition(t, n) for t, count in counts.items() for n in range(count)):
        claimants = random.sample(
            members, min(random.choice((0, 1, 1, 1, 1, 1, 1, 2)), len(members))
        )
        for member in claimants:
            if partition.topic in wanted[member] or not keeps_topics:
                owned[member].append(partition)
    busiest = random.choice(members)
    if random.random() < 0.3:
        owned = {member: own if member == busiest else [] for member, own in owned.items()}
    subscriptions = {m: _drawn_subscription(random, name, wanted[m], owned[m]) for m in members}
    return Input(name, counts, subscriptions)


def _drawn_subscription(
    random: Random, name: AssignorName, topics: list[str], owned: list[TopicPartition]
) -> Subscription:
    """Return the subscription that a member with these partitions sends to this assignor."""
    generation = random.choice((5, 5, 5, 5, 4, 3, -1))
    instance_id = f"instance-{random.getrandbits(16)}" if random.random() < 0.2 else None
    data = user_data(name, owned if random.random() < 0.9 else None, generation)
    if data is not None and name is AssignorName.STICKY and random.random() < 0.1:
        data = data[:-4]
    reports_generation = random.random() < 0.9
    return Subscription(
        topics=tuple(sorted(topics)),
        owned=tuple(sorted(owned)) if name is AssignorName.COOPERATIVE_STICKY else (),
        generation_id=generation if generation >= 0 and reports_generation else None,
        user_data=data,
        group_instance_id=instance_id,
    )


def request_line(given: Input) -> str:
    members = {
        member: [encode_subscription(subscription).hex(), subscription.group_instance_id]
        for member, subscription in given.members.items()
    }
    return json.dumps([given.name, given.counts, members])


def written(given: Input, assignment: Assignment) -> list[str]:
    """Return each member's partitions in their order as a line, in the order of the members."""
    assert assignment.keys() == given.members.keys()
    return [
        " ".join(f"{each.topic}/{each.partition}" for each in assignment[member])
        for member in given.members
    ]


class JavaAssignors:
    """Kafka's assignors in a Java process."""

    def __init__(self, jvm: Any, gateway: Any) -> None:
        self._java, self._gateway = jvm.java, gateway
        self._common = jvm.org.apache.kafka.common
        self._consumer = jvm.org.apache.kafka.clients.consumer

    def assign(self, given: Input) -> Assignment:
        """Return Kafka's assignment by a new assignor, like a leader that has just started."""
        assignor = getattr(self._consumer, CLASSES[given.name])()
        subscriptions = self._java.util.HashMap()
        for member, subscription in given.members.items():
            subscriptions.put(member, self._subscription(subscription))
        group = getattr(self._consumer, "ConsumerPartitionAssignor$GroupSubscription")
        found = assignor.assign(self._cluster(given.counts), group(subscriptions))
        protocol = self._consumer.internals.ConsumerProtocol
        return {
            member: decode_assignment(bytes(protocol.serializeAssignment(assigned).array()))
            for member, assigned in found.groupAssignment().items()
        }

    def _subscription(self, subscriptions: Subscription) -> Any:
        buffer = self._java.nio.ByteBuffer.wrap(bytearray(encode_subscription(subscriptions)))
        read = self._consumer.internals.ConsumerProtocol.deserializeSubscription(buffer)
        optional = self._java.util.Optional.ofNullable(subscriptions.group_instance_id)
        read.setGroupInstanceId(optional)
        return read

    def _cluster(self, counts: dict[str, int]) -> Any:
        node = self._common.Node(1, "localhost", 9092)
        replicas = self._gateway.new_array(self._common.Node, 1)
        replicas[0] = node
        infos = self._java.util.ArrayList()
        for topic, count in counts.items():
            for number in range(count):
                infos.add(self._common.PartitionInfo(topic, number, node, replicas, replicas))
        nobody = self._java.util.Collections
        return self._common.Cluster(
            "cluster", nobody.singletonList(node), infos, nobody.emptySet(), nobody.emptySet()
        )


@contextmanager
def java_assignors() -> Iterator[JavaAssignors]:
    """Kafka's assignors, in a Java process that ends afterwards."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    from brokertwin.kafka_io.jars import fetch, kafka_jars
    from brokertwin.kafka_io.java import java_executable
    from brokertwin.settings import default_home

    class_path = ":".join(str(jar) for jar in fetch(kafka_jars(), default_home()))
    port, token = launch_gateway(
        classpath=class_path,
        die_on_exit=True,
        enable_auth=True,
        java_path=java_executable(),
        javaopts=["-XX:TieredStopAtLevel=1", "-Dlog4j.level=OFF"],
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        yield JavaAssignors(gateway.jvm, gateway)
    finally:
        gateway.shutdown()
