"""A timeline: what was asked of a broker, what it answered, and what that comes of."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.explain.error_pages import page_of
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.history.words import clock
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.rules import RULES, Rule
from brokertwin.state.core.errors import error_name

KNOWN_SHOWN = 8
"""Names that are listed where the one asked for is not there."""

NO_VERSION = -1
"""API version of an entry that is a line of server.log, not a request."""


class Shade(StrEnum):
    """What a line of a story is, for who shows it in colours."""

    HEAD = "head"
    PLAIN = "plain"
    NOTE = "note"
    REFUSED = "refused"


class Line(NamedTuple):
    """A line of a story."""

    shade: Shade
    text: str


class Refused(NamedTuple):
    """An error, and what it comes of: a sentence about this recording, "" where it says nothing."""

    code: int
    because: str = ""

    @property
    def name(self) -> str:
        """Kafka's name of it."""
        return error_name(self.code)

    @property
    def rule(self) -> Rule | None:
        """What it means."""
        return RULES.get(self.code)


class Entry(NamedTuple):
    """An exchange that the story is about; `time` is when the request arrived, ms since 1970."""

    id: str
    time: int
    client: str
    connection: str
    api: str
    version: int
    said: str
    notes: list[str]
    refused: list[Refused]

    @classmethod
    def of(cls, exchange: Exchange, said: str, notes: list[str], refused: list[Refused]) -> "Entry":
        """That of an exchange."""
        return cls(
            exchange.id,
            exchange.time,
            exchange.header.client_id or "",
            exchange.connection,
            exchange.api,
            exchange.version,
            said,
            notes,
            refused,
        )

    @classmethod
    def at(
        cls, line: RecordedRequest, said: str, notes: list[str], refused: list[Refused]
    ) -> "Entry":
        """The entry of an exchange as machines take it."""
        head = line.place, line.time, line.client, line.connection, line.api, line.version
        return cls(*head, said, notes, refused)

    def lines(self, explained: set[int]) -> Iterator[Line]:
        """For people; what an error means is said where it comes first, if not in `explained`."""
        what = f"client {self.client}  {self.api} v{self.version}"
        if self.version == NO_VERSION:
            what = f"{self.connection}  {self.api}"
        yield Line(Shade.HEAD, f"{clock(self.time)}  {what}  {self.id}")
        if self.said:
            yield Line(Shade.PLAIN, f"    {self.said}")
        yield from (Line(Shade.NOTE, f"    {note}") for note in self.notes)
        for refused in self.refused:
            yield Line(Shade.REFUSED, f"    refused: {refused.code} {refused.name}")
            if refused.because:
                yield Line(Shade.PLAIN, f"    because  {refused.because}")
            if refused.rule is not None and refused.code not in explained:
                explained.add(refused.code)
                yield Line(Shade.PLAIN, f"    rule     {refused.rule.why} [{refused.rule.source}]")
                yield Line(Shade.PLAIN, f"    do       {refused.rule.do}")
                yield Line(Shade.PLAIN, f"    page     {page_of(refused.code)}")

    def document(self) -> dict[str, Any]:
        """For programs."""
        made = self._asdict() | {
            "refused": [
                {
                    "code": each.code,
                    "error": each.name,
                    "because": each.because,
                    **(
                        each.rule._asdict() | {"page": page_of(each.code)}
                        if each.rule is not None
                        else {}
                    ),
                }
                for each in self.refused
            ]
        }
        return dict(msgspec.to_builtins(made))


class Subject(Protocol):
    """What a recording says of a producer, a group or a fetch session."""

    def story(self) -> list[Entry]:
        """One for each request that belongs to it, in the order of their answers."""

    def ending(self) -> list[str]:
        """What a broker knows at the end of the story, in lines."""


def in_order(exchanges: Iterable[Exchange], apis: Collection[str]) -> list[tuple[Exchange, Any]]:
    """The answered exchanges of these APIs with their requests, in the order of the answers."""
    answered = [each for each in exchanges if each.is_recorded and each.api in apis]
    return [(each, each.body()) for each in sorted(answered, key=lambda each: each.end)]


def absent(what: str, key: str, known: Iterable[object], place: str = "recording") -> UserError:
    """The error that a recording has no such thing; `known` are those that it has."""
    names = list(map(str, known))
    listed = ", ".join(names[:KNOWN_SHOWN]) + (", …" if names[KNOWN_SHOWN:] else "")
    return UserError(
        f"The {place} has no {what} {key}.",
        f"It has {listed}." if names else f"It has no {what}.",
    )


def words(exchange: Exchange) -> str:
    """`client second's INIT_PRODUCER_ID at 12:00:03.120 (orders.jsonl:12)`."""
    client = exchange.header.client_id or "?"
    return f"client {client}'s {exchange.api} at {clock(exchange.time)} ({exchange.id})"
