"""Names, ids and replica placement of topics.

Kafka draws topic ids and first brokers at random. Here an id derives from the event (its nonce, or
`choices`). Replicas go round the racks, and round the brokers of each rack, starting with one
derived from the topic's name.

Sources: `Topic`, `ReplicationControlManager`, `StripedReplicaPlacer`, `Uuid` in Kafka.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TypeVar

from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.state.cluster.coordinators import partition_for
from brokertwin.state.cluster.machines import Usable

NAME_LENGTH_MAX = 249

RECORDS_PER_REQUEST_MAX = 10_000
"""Limit of metadata records for one request, as in Kafka."""

PARTITIONS_PER_REQUEST_MAX = 10_000

CLUSTER_METADATA = "__cluster_metadata"
"""The controllers' metadata log, which cannot be created as a topic."""

_Item = TypeVar("_Item")
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_RESERVED = {ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAQ"}


def name_error(name: str) -> str | None:
    """Kafka's message for an invalid topic name, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed"
            f" length {NAME_LENGTH_MAX}"
        )
    if not _NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII"
            " alphanumerics, '.', '_' and '-'"
        )
    return None


def unify(name: str) -> str:
    """The name in metrics; topics with the same unified name collide."""
    return name.replace(".", "_")


def derive_uuid(*parts: str) -> Uuid:
    """A version 4 UUID that is a function of `parts`.

    As in Kafka it never starts with a dash, which command lines would take for an option.
    """
    for attempt in range(256):
        seed = "\0".join((*parts, str(attempt)))
        octets = bytearray(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16])
        octets[6] = octets[6] & 0x0F | 0x40
        octets[8] = octets[8] & 0x3F | 0x80
        uuid = base64.urlsafe_b64encode(octets).decode("ascii").rstrip("=")
        if not uuid.startswith("-"):
            return uuid
    raise AssertionError("256 consecutive ids start with a dash")


def is_uuid(text: str) -> bool:
    """True for an id as Kafka writes it: 16 bytes in base64url without padding."""
    try:
        octets = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return False
    canonical = base64.urlsafe_b64encode(octets).decode("ascii").rstrip("=")
    return len(octets) == 16 and canonical == text


def new_topic_id(
    name: str, chosen: Uuid | None, seeds: Sequence[str], is_taken: Callable[[Uuid], bool]
) -> Uuid:
    """Id of a new topic: the chosen one if it is usable, else derived from `seeds`."""
    if chosen is not None and chosen not in _RESERVED and is_uuid(chosen) and not is_taken(chosen):
        return chosen
    attempt = 0
    while True:
        topic_id = derive_uuid("topic", *seeds, name, str(attempt))
        if not is_taken(topic_id):
            return topic_id
        attempt += 1


def place(
    name: str, brokers: Usable, first: int, count: int, replication_factor: int
) -> list[list[int]]:
    """Replicas of the partitions `first` to `first + count - 1`, leaders first."""
    start = partition_for(name, len(brokers.alive))
    alive, fenced = _racks(brokers.alive, brokers.racks), _racks(brokers.fenced, brokers.racks)
    return [
        [*_from(alive, start + number), *_from(fenced, start + number)][:replication_factor]
        for number in range(first, first + count)
    ]


def _racks(brokers: list[int], racks: Mapping[int, str]) -> list[list[int]]:
    """Brokers by rack; those without a rack are in one, as in Kafka."""
    by_rack: dict[str, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker, ""), []).append(broker)
    return [by_rack[rack] for rack in sorted(by_rack)]


def _from(racks: list[list[int]], start: int) -> list[int]:
    """All brokers, starting at one rack: one of each rack, then the next of each."""
    turn, first = divmod(start, len(racks) or 1)
    rings = [_ring(brokers, turn) for brokers in _ring(racks, first)]
    return [each for row in zip_longest(*rings) for each in row if each is not None]


def _ring(items: list[_Item], start: int) -> list[_Item]:
    at = start % len(items) if items else 0
    return items[at:] + items[:at]


def unreachable(replication_factor: int, brokers: Usable) -> str | None:
    """Kafka's message if there are too few brokers, or None.

    Source: `StripedReplicaPlacer` in Kafka.
    """
    count = len(brokers.alive) + len(brokers.fenced)
    if 0 < replication_factor <= count and brokers.alive:
        return None
    if replication_factor <= 0:
        return (
            f"Invalid replication factor {replication_factor}: the replication factor must be"
            " positive."
        )
    if not brokers.alive:
        return "All brokers are currently fenced, or have all their log directories cordoned."
    return (
        f"The target replication factor of {replication_factor} cannot be reached because only"
        f" {count} broker(s) are registered or some brokers have all their log directories"
        " cordoned."
    )


def all_fenced(partition: int) -> str:
    """Kafka's message for an assignment without live replicas."""
    return (
        "All brokers specified in the manual partition assignment for partition"
        f" {partition} are fenced or in controlled shutdown."
    )


def assignment_error(
    replicas: Sequence[int], replication_factor: int | None, brokers: Sequence[int]
) -> str | None:
    """Kafka's message for an invalid assignment of a partition, or None.

    `replication_factor` is that of the partitions before it, None for the first.
    """
    what = "The manual partition assignment includes"
    if not replicas:
        return f"{what} an empty replica list."
    former = None
    for broker in sorted(replicas):
        if broker not in brokers:
            return f"{what} broker {broker}, but no such broker is registered."
        if broker == former:
            return f"{what} the broker {broker} more than once."
        former = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        return (
            f"{what} a partition with {len(replicas)} replica(s), but this is not consistent with"
            f" previous partitions, which have {replication_factor} replica(s)."
        )
    return None
