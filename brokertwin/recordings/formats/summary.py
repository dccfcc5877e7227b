"""Counts of input lines for the final table."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from brokertwin.errors import NothingRecordedError, UserError
from brokertwin.recordings.formats.coordinator_lines import Logged
from brokertwin.recordings.formats.documents import (
    NO_TIME,
    OTHER,
    Document,
    UnpairedDocuments,
    is_controllers,
    listener_of,
)
from brokertwin.recordings.formats.kinds import BY_NAME
from brokertwin.recordings.formats.lines import SourceLine

EXAMPLES_SHOWN = 5
NEEDED = (
    "Needed are Kafka's request logs (kafka.request.logger at DEBUG, Kafka 0.11 or later),"
    " Kroxylicious' protocol logs, or captures."
)


@dataclass
class Summary:
    """Counts of one run.

    Attributes:
        lines: number of non-empty lines.
        events: number of documents by API.
        left: number of entries without a document by (API, reason).
        dead: number of damaged lines by reason.
        examples: (place, reason, detail) of the first dead lines of each reason.
        nameless_topic_ids: number of topic ids in requests without a known name.
        logged: lines about groups in Kafka's server.log.
        on_dead: called with each dead line.
        on_undecoded: called with each captured request that has a header alone.
    """

    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)
    nameless_topic_ids: int = 0
    controllers: set[str] = field(default_factory=set)
    logged: list[Logged] = field(default_factory=list)
    on_dead: Callable[[UnpairedDocuments], None] = lambda _: None
    on_undecoded: Callable[[Document], None] = lambda _: None

    def counted(self, lines: Iterator[SourceLine]) -> Iterator[SourceLine]:
        for line in lines:
            self.lines += 1
            yield line

    def skipped(self) -> None:
        """Count a line that is not needed."""
        self.lines += 1

    def made(self, document: Document) -> None:
        self.events[document.api] += 1
        if is_controllers(document.header, bytes(document.request)):
            self.controllers.add(listener_of(document))

    def leave(self, left: UnpairedDocuments) -> None:
        """Count a line without a document."""
        if left.logged is not None:
            self.logged.append(left.logged)
        if left.undecoded is not None:
            self.on_undecoded(left.undecoded)
        if not left.is_dead:
            self.left[left.api, left.reason] += 1
            return
        self.dead[left.reason] += 1
        if self.dead[left.reason] <= EXAMPLES_SHOWN:
            self.examples.append((left.line.place, left.reason, left.detail))
        self.on_dead(left)


class OtherKindError(UserError):
    """The lines are of a kind that a command does not read, or reads in part."""


def nothing_read(summary: Summary) -> UserError:
    """The error for input without an exchange: its kind and a hint."""
    reasons = summary.dead + Counter(
        {reason: count for (_, reason), count in summary.left.items() if reason != OTHER}
    )
    if NO_TIME in summary.dead:
        count = summary.dead[NO_TIME]
        return NothingRecordedError(
            f"No exchange was read: {count} of {summary.lines} lines have no date and time.",
            "Log each line with its date, as in 2026-11-21 01:22:27.944.",
        )
    kinds = [(reason, n) for reason, n in reasons.most_common() if reason in BY_NAME]
    if kinds:
        kind, count = BY_NAME[kinds[0][0]], kinds[0][1]
        return OtherKindError(
            f"No exchange was read: {count} of {summary.lines} lines are of another kind:"
            f" {kind.name}.",
            kind.hint,
        )
    if summary.examples:
        place, reason, detail = summary.examples[0]
        return NothingRecordedError(
            f"No exchange was read. The first reason: {place}: {detail or reason}.", NEEDED
        )
    if reasons:
        ((reason, count),) = reasons.most_common(1)
        return NothingRecordedError(
            f"No exchange was read. Why, for {count} of {summary.lines} lines: {reason}.", NEEDED
        )
    what = f"none of {summary.lines} lines is one" if summary.lines else "there are no lines"
    return NothingRecordedError(f"No exchange was read: {what}.", NEEDED)
