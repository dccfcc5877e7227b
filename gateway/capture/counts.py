"""Counts of relayed exchanges, for the status line and the closing table."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class ApiCounts:
    """Exchanges of one API; `ms` is the sum of their response times."""

    exchanges: int = 0
    ms: float = 0.0
    ms_max: float = 0.0
    undelivered: int = 0
    not_read: int = 0


@dataclass
class CaptureCounts:
    """Counts of a capture.

    Attributes:
        connections_all: all connections so far.
        apis: counts by the API's name in the request log.
        refused: connections that no broker accepted, by reason.
    """

    connections: int = 0
    connections_all: int = 0
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def exchanges(self) -> int:
        """Number of exchanges of all APIs."""
        return sum(counts.exchanges for counts in self.apis.values())

    def add(self, api: str, ms: float, is_delivered: bool, is_read: bool) -> None:
        """Count an exchange."""
        counts = self.apis.setdefault(api, ApiCounts())
        counts.exchanges += 1
        counts.ms += ms
        counts.ms_max = max(counts.ms_max, ms)
        counts.undelivered += not is_delivered
        counts.not_read += not is_read
