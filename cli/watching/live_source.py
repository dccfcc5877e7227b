"""Status document of a running live audit, with its newest findings."""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

import brokertwin
from brokertwin.cli.watching.rates import Rate
from brokertwin.cli.watching.sources import Pulse
from brokertwin.cli.watching.status import (
    POINTS_MAX,
    FindingCount,
    LiveFinding,
    OfLive,
    Point,
    Status,
)
from brokertwin.gateway.engine.engine import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokertwin.streaming.live.runner import LiveProgress

NEWEST = 30
"""Number of findings in a document."""

KEPT = 10_000
"""Number of newest findings whose ids are known, so that a completed one is not counted again."""

LABEL_VALUES_MAX = 100
"""Maximum number of clusters, and of clients, in the counts; later ones are counted as `other`."""

OTHER = "other"

_decoder = msgspec.json.Decoder(LiveFinding)


class LiveSource:
    """Status of a live audit.

    `observe` and `found` are called for each micro-batch, `pulse` in each loop.

    Args:
        name: the prefix of its topics.
        ending: set to stop it.
    """

    def __init__(self, name: str, ending: threading.Event | None = None) -> None:
        self._name = name
        self.pulse = Pulse(ending)
        self._of_batch = OfLive()
        self._rate = Rate()
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._clusters: set[str] = set()
        self._clients: set[str] = set()
        self._kept: OrderedDict[str, LiveFinding] = OrderedDict()

    def earlier(self, documents: "Iterable[bytes]") -> None:
        """Show findings of a former start, which are not counted."""
        with self._lock:
            for document in documents:
                self._keep(_decoder.decode(document))

    def observe(self, progress: "LiveProgress") -> None:
        """Note the end of a micro-batch."""
        seen_ms = now_ms()
        self._of_batch = OfLive(
            batch=progress.batch,
            batch_time_ms=seen_ms,
            batch_rows=progress.rows,
            batch_seconds=progress.seconds,
            lag=progress.lag,
            state_rows=progress.entities,
            counts=progress.counts,
        )
        self._rate.add(progress.rows, progress.seconds)
        rate = progress.rows / max(progress.seconds, 0.001)
        self._points.append(Point(seen_ms, rate, progress.seconds, progress.lag))

    def found(self, documents: Sequence[bytes]) -> None:
        """Count the findings of a micro-batch, given as rows of the topic of findings."""
        with self._lock:
            for document in documents:
                finding = _decoder.decode(document)
                if self._keep(finding) and not finding.withdrawn:
                    client = finding.clients[0] if finding.clients else ""
                    label = _bounded(self._clusters, finding.cluster)
                    self._counts[finding.kind, label, _bounded(self._clients, client)] += 1

    def _keep(self, finding: LiveFinding) -> bool:
        """Keep a finding; False if it replaces one."""
        is_new = finding.id not in self._kept
        self._kept[finding.id] = finding
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return is_new

    def status(self) -> Status:
        """Return the document."""
        with self._lock:
            counts = [FindingCount(*key, number) for key, number in self._counts.items()]
            kept = [each for each in self._kept.values() if not each.withdrawn]
        newest = sorted(kept, key=lambda each: -each.to)[:NEWEST]
        return Status(
            kind="live",
            name=self._name,
            version=brokertwin.__version__,
            phase=self.pulse.phase,
            time_ms=now_ms(),
            started_ms=self.pulse.started_ms,
            rate=self._rate.value(),
            responses={},
            errors={},
            points=list(self._points),
            live=msgspec.structs.replace(self._of_batch, findings=counts, newest=newest),
        )


def _bounded(known: set[str], value: str) -> str:
    if len(known) < LABEL_VALUES_MAX:
        known.add(value)
    return value if value in known else OTHER
