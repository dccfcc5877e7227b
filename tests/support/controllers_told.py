"""What an administrator asks of the controller in a told history: leaders and replicas change."""

from brokerstream.state.cluster.coordinators import GROUP_TOPIC
from tests.support.requests_told import Tell
from tests.support.telling import Telling


def elect(t: Telling) -> None:
    """Elects a leader, or all of them."""
    name, partition = t.place()
    asked = [{"topic": t.choice.of([name, name, GROUP_TOPIC]), "partitions": [partition]}]
    body = {"electionType": t.choice.of([0, 0, 1, 7]), "timeoutMs": t.choice.of([1000, 1000, 0])}
    body["topicPartitions"] = None if t.choice.one_in(4) else asked
    t.ask(43, t.any_broker(), body)


def reassign(t: Telling) -> None:
    """Begins a reassignment, which ends at once or when the new replica is in sync; or cancels."""
    name, partition = t.place()
    brokers = t.clients.brokers
    first = t.choice.below(len(brokers))
    wanted = [*brokers[first:], *brokers[:first]][: t.choice.below(len(brokers)) + 1]
    if t.choice.one_in(8):
        wanted = [9]
    replicas = None if t.choice.one_in(4) else wanted
    partitions = [{"partitionIndex": partition, "replicas": replicas}]
    body = {"timeoutMs": t.choice.of([1000, 1000, 1000, 0])}
    topics = [{"name": t.choice.of([name, name, GROUP_TOPIC]), "partitions": partitions}]
    t.ask(45, t.any_broker(), {**body, "topics": topics})
    listed = [{"name": name, "partitionIndexes": [partition]}]
    t.ask(46, t.any_broker(), {"topics": t.choice.of([None, listed])})


CONTROLLER_REQUESTS: list[tuple[int, Tell]] = [(1, elect), (2, reassign)]
"""How often each kind of event comes."""
