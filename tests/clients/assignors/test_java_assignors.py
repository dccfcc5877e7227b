"""The assignors beside Kafka's own Java classes: members, partitions and their order."""

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
from tests.support.assignors import Input, Row, draw_input, java_assignors, table, write_table
from tests.support.examples import ARE_NEW, examples

SEED = 431
IN_TABLE = (*range(44), 329, 421, 1819, 2261)
"""The last ones are rare: a partition goes back to who had it in a generation before."""

INPUTS = examples(1_000)


def sent(assignment: Assignment) -> Assignment:
    """As members get it: the partitions of a topic together."""
    return {m: decode_assignment(encode_assignment(got)) for m, got in assignment.items()}


@pytest.mark.parametrize("name", list(AssignorName))
def test_what_java_assigned_is_assigned(name: AssignorName) -> None:
    rows = [row for row in table() if row.assignor is name]
    assert len(rows) >= len(IN_TABLE) // 8
    for row in rows:
        said = {
            member: decode_subscription(data, row.instances.get(member))
            for member, data in row.members.items()
        }
        assert sent(assign(name, row.counts, said)) == row.assigned


def test_a_subscription_is_read_as_it_was_written() -> None:
    rows: list[Row] = table()
    for data in (data for row in rows for data in row.members.values()):
        assert encode_subscription(decode_subscription(data)) == data


def gives_the_unwanted(given: Input, assignment: Assignment) -> bool:
    """Whether a member gets partitions of a topic that it does not subscribe to."""
    return any(
        partition.topic not in given.members[member].topics
        for member, got in assignment.items()
        for partition in got
    )


@pytest.mark.kafka
def test_java_assigns_the_same_to_a_thousand_groups() -> None:
    """But where members own what they no longer want, which Java may give them."""
    random = Random() if ARE_NEW else Random(SEED)
    inputs = [draw_input(random, keeps_topics=at % 10 != 9) for at in range(INPUTS)]
    with java_assignors() as java:
        assigned = [java.assign(given) for given in inputs]
        in_table = [draw_input(Random(at)) for at in IN_TABLE]
        again = [java.assign(given) for given in in_table]
    pairs = zip(inputs, assigned, strict=True)
    other = [
        given
        for given, theirs in pairs
        if sent(assign(given.name, given.counts, given.members)) != theirs
        and not gives_the_unwanted(given, theirs)
    ]
    assert other == []
    assert sum(len(given.members) > 1 for given in inputs) > INPUTS / 2
    assert [row.assigned for row in table()] == again


def main() -> None:
    """Writes the table."""
    inputs = [draw_input(Random(at)) for at in IN_TABLE]
    with java_assignors() as java:
        write_table(inputs, [java.assign(given) for given in inputs])


if __name__ == "__main__":
    main()
