"""Status document of a running live audit, with its newest incidents."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from brokertwin.cli.watching.live_incidents import incidents
from brokertwin.cli.watching.sources import StatusBase, of_lag
from brokertwin.cli.watching.status import FindingCount, LiveFinding, OfLive, Status
from brokertwin.streaming.job.lag import NO_LAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokertwin.streaming.live.runner import LiveProgress

NEWEST = 30
"""Number of incidents in a document."""

KEPT = 10_000
"""Number of newest findings whose ids are known, so that a completed one is not counted again."""

LABEL_VALUES_MAX = 100
"""Maximum number of clusters, and of clients, in the counts; later ones are counted as `other`."""

OTHER = "other"

_decoder = msgspec.json.Decoder(LiveFinding)


class LiveSource(StatusBase):
    """Status of a live audit.

    `observe` and `found` are called for each micro-batch, `pulse` in each loop.

    Args:
        name: the prefix of its topics.
        ending: set to stop it.
    """

    def __init__(self, name: str, ending: threading.Event | None = None) -> None:
        super().__init__("live", name, ending)
        self._of_batch = OfLive()
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
        self._of_batch = OfLive(
            batch=progress.batch,
            batch_time_ms=self._note_batch(progress.rows, progress.seconds, progress.lag),
            batch_rows=progress.rows,
            batch_seconds=progress.seconds,
            lag=progress.lag,
            state_rows=progress.entities,
            counts=progress.counts,
        )

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
        newest = incidents(kept)[:NEWEST]
        live = msgspec.structs.replace(self._of_batch, findings=counts, incidents=newest)
        lag = self.lag()
        if lag is not NO_LAG:
            live = msgspec.structs.replace(live, lag=lag.total)
        return self._status({}, {}, live=live, **of_lag(lag))


def _bounded(known: set[str], value: str) -> str:
    if len(known) < LABEL_VALUES_MAX:
        known.add(value)
    return value if value in known else OTHER
