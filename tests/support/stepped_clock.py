"""A clock for our broker that stands still until a test moves it on."""

from brokertwin.gateway.engine import now_ms
from tests.support.goldens import IS_LIVE, WRITTEN_MS


class SteppedClock:
    """The time in ms since 1970: the machine's beside a live broker, otherwise stepped by hand.

    An engine fires the deadlines that have passed with its next request.
    """

    def __init__(self) -> None:
        self._now = WRITTEN_MS

    def __call__(self) -> int:
        """Return the time."""
        return now_ms() if IS_LIVE else self._now

    def advance(self, ms: int) -> None:
        """Let time pass, during a replay."""
        self._now += ms
