"""A timeline: requests, responses and their causes."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from brokertwin.errors import UserError
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.words import clock
from brokertwin.recordings.rules import RULES, Rule
from brokertwin.wording import some

SHOWN = 8
"""Number of names that are listed if the requested one does not exist."""

NO_VERSION = -1
"""API version of an entry that is a line of server.log, not a request; below it: unknown."""

NO_RESPONSE = "the log has no response"


class Shade(StrEnum):
    """The kind of a line of a timeline, for its colour."""

    HEAD = "head"
    PLAIN = "plain"
    NOTE = "note"
    REFUSED = "refused"


class TimelineLine(NamedTuple):
    shade: Shade
    text: str


class TimelineError(NamedTuple):
    """An error and its cause in this recording; "" if the cause is unknown."""

    code: int
    because: str = ""

    @property
    def name(self) -> str:
        """Kafka's name of the error."""
        return error_name(self.code)

    @property
    def rule(self) -> Rule | None:
        return RULES.get(self.code)


class TimelineEntry(NamedTuple):
    """An exchange of a timeline; `time` is the arrival of the request, in ms since 1970."""

    id: str
    time: int
    client: str
    connection: str
    api: str
    version: int
    said: str
    notes: list[str]
    refused: list[TimelineError]
    host: str = ""

    @classmethod
    def at(
        cls, line: RecordedRequest, said: str, notes: list[str], refused: list[TimelineError]
    ) -> "TimelineEntry":
        head = line.place, line.time, line.client, line.connection, line.api, line.version
        return cls(*head, said, notes, refused, line.host)

    def lines(self, explained: set[int], shared: Collection[str] = ()) -> Iterator[TimelineLine]:
        """Lines of text; an error is described at its first entry, if not in `explained`.

        `shared`: client ids of several hosts, which are named.
        """
        version = f" v{self.version}" if self.version >= 0 else ""
        host = f" at {self.host}" if self.host and self.client in shared else ""
        what = f"client {self.client}{host}  {self.api}{version}"
        if self.version == NO_VERSION:
            what = f"{self.connection}  {self.api}"
        yield TimelineLine(Shade.HEAD, f"{clock(self.time)}  {what}  {self.id}")
        if self.said:
            yield TimelineLine(Shade.PLAIN, f"    {self.said}")
        yield from (TimelineLine(Shade.NOTE, f"    {note}") for note in self.notes)
        for refused in self.refused:
            yield TimelineLine(Shade.REFUSED, f"    refused: {refused.code} {refused.name}")
            if refused.because:
                yield TimelineLine(Shade.PLAIN, f"    because  {refused.because}")
            if refused.rule is not None and refused.code not in explained:
                explained.add(refused.code)
                yield TimelineLine(
                    Shade.PLAIN, f"    rule     {refused.rule.why} [{refused.rule.source}]"
                )
                yield TimelineLine(Shade.PLAIN, f"    do       {refused.rule.do}")
                yield TimelineLine(
                    Shade.PLAIN, f"    more     brokertwin explain error {refused.name}"
                )

    def document(self) -> dict[str, Any]:
        made = self._asdict() | {
            "refused": [
                {
                    "code": each.code,
                    "error": each.name,
                    "because": each.because,
                    **(each.rule._asdict() if each.rule is not None else {}),
                }
                for each in self.refused
            ]
        }
        return dict(msgspec.to_builtins(made))


def of_several_hosts(entries: Iterable[TimelineEntry]) -> set[str]:
    """The client ids that several hosts use."""
    hosts: dict[str, set[str]] = {}
    for each in entries:
        hosts.setdefault(each.client, set()).add(each.host)
    return {client for client, names in hosts.items() if len(names - {""}) > 1}


class Subject(Protocol):
    """A producer, a group, a session or another subject in a recording."""

    def story(self) -> list[TimelineEntry]:
        """One entry for each request of the subject, in the order of their arrival."""

    def ending(self) -> list[str]:
        """The final state of the subject, in lines."""


class AbsentError(UserError):
    """A recording lacks a subject."""


def absent(what: str, key: str, items: Iterable[object], place: str = "recording") -> AbsentError:
    """Error for a subject that a recording lacks; `items` are the existing ones."""
    names = list(map(str, items))
    nothing = f"It has no {what}s at all."
    if place == "recording":
        nothing += (
            " Take logs of a time when it was active; `explain client` reads a client's own log."
        )
    return AbsentError(
        f"The {place} has no {what} {key}.", f"It has {some(names, SHOWN)}." if names else nothing
    )
