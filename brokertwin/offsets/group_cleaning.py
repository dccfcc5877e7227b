"""Delete the committed offsets of a group by hand, after the four checks of seed 003.

The seed's tool read ZooKeeper: the group must exist and have no live consumer, and its topics and
their partitions are looked up. Here ListGroups, OffsetFetch and Metadata provide the same facts,
and OffsetDelete replaces commits with a null payload.
"""

from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, NoError

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import admin_client, existing
from brokertwin.offsets.group_offsets import EMPTY, SHARE


class CommittedPosition(NamedTuple):
    """A committed offset of the group; `exists` is False if the cluster has no such partition."""

    topic: str
    partition: int
    offset: int
    exists: bool


def checked(client: ClientProperties, group: str) -> list[CommittedPosition]:
    """Check that the offsets of a group may be deleted, and list them by topic and partition.

    Raises:
        UserError: the group does not exist, has members or no offsets, or a request failed.
    """
    counts = existing(admin_client(client), client)
    try:
        with closing(KafkaAdminClient(**client.for_kafka_python())) as admin:
            _check(admin, client, group)
            committed = admin.list_group_offsets(group)[group]
    except KafkaError as error:
        raise _failed(client, error) from None
    found = [
        CommittedPosition(topic, number, value.offset, number < counts.get(topic, 0))
        for (topic, number), value in sorted(committed.items())
        if value.offset >= 0
    ]
    if not found:
        raise UserError(f"Group {group} at {client.bootstrap} has no committed offsets.")
    return found


def delete(
    client: ClientProperties, group: str, places: Iterable[CommittedPosition]
) -> dict[CommittedPosition, str]:
    """Delete offsets of a group; return the error of each one that still exists."""
    wanted = {TopicPartition(each.topic, each.partition): each for each in places}
    try:
        with closing(KafkaAdminClient(**client.for_kafka_python())) as admin:
            errors = admin.delete_group_offsets(group, list(wanted))
    except KafkaError as error:
        raise _failed(client, error) from None
    return {wanted[at]: each.__name__ for at, each in errors.items() if each is not NoError}


def _check(admin: KafkaAdminClient, client: ClientProperties, group: str) -> None:
    listed = {each["group_id"]: each for each in admin.list_groups()}
    if group not in listed:
        raise UserError(
            f"Group {group} does not exist at {client.bootstrap}.",
            "Check the group id: brokertwin offsets show lists all groups.",
        )
    if listed[group].get("group_type") == SHARE:
        raise UserError(f"Group {group} is a share group, which has no committed offsets.")
    state = listed[group].get("group_state", EMPTY)
    if state != EMPTY:
        raise UserError(
            f"Group {group} has live members: its state is {state}.",
            "Stop its members first, or wait until their sessions time out.",
        )


def _failed(client: ClientProperties, error: KafkaError) -> UserError:
    return UserError(
        f"Kafka at {client.bootstrap} refused the request: {error}.",
        "The user needs Describe on the cluster, Delete on the group and Read on its topics.",
    )
