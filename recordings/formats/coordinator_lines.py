"""Lines of Kafka's server.log in which the coordinator tells what it did to a group.

    [2026-06-03 11:49:05,758] INFO [GroupCoordinator id=0] Member m-1 in group parcels has failed, …

Source: `GroupCoordinator` of Kafka 0.9 to 3.x, `GroupMetadataManager` of Kafka 3.5 and later.
"""

import re
from typing import NamedTuple

FORM = re.compile(
    rb"\[(?:GroupCoordinator(?: id=|[ ])|GroupMetadataManager brokerId=)(\d+)[^\]]*\]:? (.*?)"
    rb"(?: \([\w.$]*coordinator\.group\.[\w.$]+\))?\s*$",
    re.DOTALL,
)
_BRACKETED = re.compile(r"\[Group(?:Id)? ([^\]]+)\]")
_NAMED = re.compile(r"\b[Gg]roup (?!is |with |of |in |has |through |by |and )(\S+)")
_PREPARING = re.compile(r"old generation (\d+) (?:\(\S+\) )?\(reason: (.*)\)", re.DOTALL)
_PARTICULAR = re.compile(
    r"(?<=\bmember) [^\s;]+| for \([^)]*\) members?| with group instance id [^\s;]+"
    r"|; client reason: not provided"
)
_REACHED = re.compile(
    r"(?:Stabilized group .* generation |with generation (?=\d+ is now empty)|group epoch to )(\d+)"
)
_ENDED = re.compile(r"has failed, removing|heartbeat expiration|session|rebalance timeout|fenced")

MEANINGS = {
    "heartbeat expiration": "No heartbeat of the member arrived within session.timeout.ms.",
    "has failed, removing it": "No heartbeat or join of the member arrived in time.",
    "session expired": "No heartbeat of the member arrived within the session timeout.",
    "rebalance timeout": "The member did not follow the rebalance within max.poll.interval.ms.",
    "poll timeout has expired": "The client did not call poll() within max.poll.interval.ms.",
    "unknown member id joins": "A new client: the coordinator hands out a member id (KIP-394).",
}
"""Part of a line to what it means for the client."""


class Logged(NamedTuple):
    """A line about a group: where it is, its time in ms since 1970, its broker and its text."""

    place: str
    time: int
    broker: int
    text: str

    @property
    def groups(self) -> set[str]:
        """The group that the line names, with and without a full stop behind it."""
        found = _BRACKETED.findall(self.text) or _NAMED.findall(self.text)[:1]
        return {each for name in found for each in (name, name.rstrip(".,;:"))}

    def is_of(self, group: str) -> bool:
        """Whether the line is about a group."""
        if _BRACKETED.search(self.text):
            return group in self.groups
        named = rf"\b[Gg]roup {re.escape(group)}(?=[.,;:]?(?:\s|$))"
        return re.search(named, self.text) is not None

    @property
    def rebalance(self) -> tuple[int, str] | None:
        """The generation that a rebalance ends, and its reason."""
        found = _PREPARING.search(self.text)
        return (int(found[1]), found[2].rstrip(".")) if found else None

    @property
    def generation(self) -> int:
        """The generation or group epoch that begins; -1 if the line tells none."""
        found = _REACHED.search(self.text)
        return int(found[1]) if found else -1

    @property
    def reason_in_general(self) -> str:
        """The reason of a rebalance without ids of members."""
        _, reason = self.rebalance or (0, "")
        return _PARTICULAR.sub("", reason)

    def ends(self, member: str) -> bool:
        """Whether the coordinator removed this member."""
        return member in self.text and _ENDED.search(self.text) is not None

    @property
    def meaning(self) -> str:
        """What the line means for the client; empty if it says so itself."""
        return next((said for part, said in MEANINGS.items() if part in self.text), "")


def logged(place: str, text: bytes, time: int) -> Logged | None:
    """The line, if it is of a group's coordinator and names a group."""
    found = FORM.search(text)
    if found is None:
        return None
    made = Logged(place, time, int(found[1]), found[2].decode("utf-8", "replace"))
    return made if made.groups else None
