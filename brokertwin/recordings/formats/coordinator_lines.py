"""Group coordinator lines of Kafka's server.log.

    [2026-06-03 11:49:05,758] INFO [GroupCoordinator id=0] Member m-1 in group parcels has failed, …

Source: `GroupCoordinator` of Kafka 0.9 to 3.x, `GroupMetadataManager` of Kafka 3.5 and later.
"""

import re
from typing import NamedTuple

from brokertwin.patterns import later

FORM = later(
    rb"\[(?:GroupCoordinator(?: id=|[ ])|GroupMetadataManager brokerId=)(\d+)[^\]]*\]:? (.*?)"
    rb"(?: \([\w.$]*coordinator\.group\.[\w.$]+\))?\s*$",
    re.DOTALL,
)
_BRACKETED = later(r"\[Group(?:Id)? ([^\]]+)\]")
_NAMED = later(r"\b[Gg]roup (?!is |with |of |in |has |through |by |and )(\S+)")
_PREPARING = later(r"old generation (\d+) (?:\(\S+\) )?\(reason: (.*)\)", re.DOTALL)
_PARTICULAR = later(
    r":? \S*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^\s;]*"
    r"|(?<=\bmember) [^\s;]+| for \([^)]*\) members?| with group instance id [^\s;]+"
    r"|; client reason: not provided"
)
_REACHED = later(
    r"(?:Stabilized group .* generation |with generation (?=\d+ is now empty)|group epoch to )(\d+)"
)
_ENDED = later(r"has failed, removing|heartbeat expiration|session|rebalance timeout|fenced")

MEANINGS = {
    "heartbeat expiration": "No heartbeat of the member arrived within session.timeout.ms.",
    "has failed, removing it": "No heartbeat or join of the member arrived in time.",
    "session expired": "No heartbeat of the member arrived within the session timeout.",
    "rebalance timeout": "The member did not follow the rebalance within max.poll.interval.ms.",
    "poll timeout has expired": "The client did not call poll() within max.poll.interval.ms.",
    "unknown member id joins": "A new client: the coordinator hands out a member id (KIP-394).",
}
"""Explanations for parts of lines."""


class Logged(NamedTuple):
    """A line about a group: place, time in ms since 1970, broker and text."""

    place: str
    time: int
    broker: int
    text: str

    @property
    def groups(self) -> set[str]:
        """The group in the line, with and without trailing punctuation."""
        found = _BRACKETED.findall(self.text) or _NAMED.findall(self.text)[:1]
        return {each for name in found for each in (name, name.rstrip(".,;:"))}

    def is_of(self, group: str) -> bool:
        if _BRACKETED.search(self.text):
            return group in self.groups
        named = rf"\b[Gg]roup {re.escape(group)}(?=[.,;:]?(?:\s|$))"
        return re.search(named, self.text) is not None

    @property
    def rebalance(self) -> tuple[int, str] | None:
        """The generation that a rebalance ends, and the reason."""
        match = _PREPARING.search(self.text)
        return (int(match[1]), match[2].rstrip(".")) if match else None

    @property
    def generation(self) -> int:
        """The new generation or group epoch; -1 if there is none."""
        match = _REACHED.search(self.text)
        return int(match[1]) if match else -1

    @property
    def reason_in_general(self) -> str:
        """The reason of a rebalance without member ids."""
        _, reason = self.rebalance or (0, "")
        return _PARTICULAR.sub("", reason)

    def ends(self, member: str) -> bool:
        return member in self.text and _ENDED.search(self.text) is not None

    @property
    def meaning(self) -> str:
        """The explanation of the line, or an empty text."""
        return next((meaning for part, meaning in MEANINGS.items() if part in self.text), "")


def logged(place: str, text: bytes, time: int) -> Logged | None:
    """Return the line if it is of a coordinator and names a group."""
    match = FORM.search(text)
    if match is None:
        return None
    made = Logged(place, time, int(match[1]), match[2].decode("utf-8", "replace"))
    return made if made.groups else None
