"""The assignors beside Kafka's own Java classes: members, partitions and their order."""

from collections.abc import Sequence
from random import Random

import pytest

from brokertwin.clients.assignors.assign import AssignorName, assign
from brokertwin.clients.assignors.group import Assignment
from brokertwin.clients.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.support.assignors import Input, draw_input, java_assignors, request_line, written
from tests.support.java_responses import inputs, java_responses

SEED = 431
RARE = (329, 421, 1819, 2261)
"""Seeds of inputs where a partition returns to the member that had it in an older generation."""

INPUTS = 1_000


def drawn() -> list[Input]:
    random = Random(SEED)
    found = [draw_input(Random(seed)) for seed in RARE]
    return found + [draw_input(random, keeps_topics=at % 10 != 9) for at in range(inputs(INPUTS))]


def sent(assignment: Assignment) -> Assignment:
    """Return an assignment as members receive it: the partitions of a topic together."""
    return {m: decode_assignment(encode_assignment(got)) for m, got in assignment.items()}


@pytest.mark.parametrize("name", list(AssignorName))
def test_a_subscription_is_read_as_it_was_written(name: AssignorName) -> None:
    datas = [
        encode_subscription(subscription)
        for given in drawn()[:100]
        if given.name is name
        for subscription in given.members.values()
    ]
    assert datas
    for data in datas:
        assert encode_subscription(decode_subscription(data)) == data


def gives_the_unwanted(given: Input, theirs: Sequence[str]) -> bool:
    """Whether a member gets partitions of a topic that it does not subscribe to."""
    return any(
        partition.partition("/")[0] not in subscription.topics
        for subscription, partitions in zip(given.members.values(), theirs, strict=True)
        for partition in partitions.split()
    )


@pytest.mark.compares
def test_partitions_are_assigned_as_by_kafkas_classes() -> None:
    """Except if members own partitions of unsubscribed topics, which Java may assign to them."""
    given = drawn()

    def send(_: Sequence[str]) -> list[list[str]]:
        with java_assignors() as java:
            return [written(each, java.assign(each)) for each in given]

    responses = java_responses("clients/assignors", [request_line(each) for each in given], send)
    compared = 0
    for each, theirs in zip(given, responses, strict=True):
        if not gives_the_unwanted(each, theirs):
            ours = assign(each.name, each.counts, each.members)
            assert written(each, sent(ours)) == theirs, each
            compared += len(each.members) > 1
    assert compared > INPUTS / 2
