"""What became of the lines: counts for the table at the end."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from brokertwin.streaming.ingest.documents import Document, Left
from brokertwin.streaming.lines import Line

EXAMPLES_SHOWN = 5


@dataclass
class Summary:
    """Counts of one run.

    Attributes:
        lines: how many lines were read; empty ones are not counted.
        events: documents made, by API.
        left: entries that became no document, by (API, reason); no API where none can be read.
        dead: damaged lines, by reason.
        examples: (place, reason, detail) of the first dead lines of each reason.
        nameless_topic_ids: topic ids in requests for which no answer shows a name.
        unknown_zones: names of time zones in the logs that are not known.
        on_dead: is told of each dead line.
    """

    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str, str]] = field(default_factory=list)
    nameless_topic_ids: int = 0
    unknown_zones: set[str] = field(default_factory=set)
    on_dead: Callable[[Left], None] = lambda _: None

    def counted(self, lines: Iterator[Line]) -> Iterator[Line]:
        """The lines, counted."""
        for line in lines:
            self.lines += 1
            yield line

    def made(self, document: Document) -> None:
        """Count a document."""
        self.events[document.api] += 1

    def leave(self, left: Left) -> None:
        """Count a line that became none."""
        if not left.is_dead:
            self.left[left.api, left.reason] += 1
            return
        self.dead[left.reason] += 1
        if self.dead[left.reason] <= EXAMPLES_SHOWN:
            self.examples.append((place_of(left.line), left.reason, left.detail))
        self.on_dead(left)


def place_of(line: Line) -> str:
    """File and line."""
    return f"{line.file}:{line.number}"
