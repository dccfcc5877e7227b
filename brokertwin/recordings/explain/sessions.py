"""The timeline of a fetch session: its opening, the partitions it forgot, its end.

Fetches that changed nothing are left out; they count as its use.
"""

from collections.abc import Sequence
from typing import Any

from brokertwin.recordings import sentences
from brokertwin.recordings.explain.story import TimelineEntry, TimelineError, absent
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.findings import (
    SessionEnded,
    SessionForgot,
    SessionLost,
    SessionOpened,
    SessionOutOfTurn,
)
from brokertwin.recordings.history.recording import ObservedRecording, observed_recording
from brokertwin.recordings.history.sessions import (
    CACHES,
    NONE,
    ObservedSession,
    ObservedSessionCache,
    opened_by,
    session_of,
    size_of,
)
from brokertwin.recordings.replay.recording import Exchange

NOTES = SessionOpened | SessionEnded | SessionForgot
REFUSALS = SessionLost | SessionOutOfTurn


class SessionTimeline:
    """A fetch session in a recording.

    Attributes:
        session: its state at the end.

    Raises:
        UserError: the recording has no such session.
    """

    def __init__(self, exchanges: Sequence[Exchange] | ObservedRecording, key: str) -> None:
        recording = observed_recording(exchanges)
        fetches = [e for e in recording.exchanges if e.line.api == "FETCH" and e.response]
        known = {opened_by(each) for each in fetches}
        known |= {session_of(each.request)[0] for each in fetches}
        known -= {NONE}
        if not key.isdecimal() or int(key) not in known:
            raise absent("fetch session", key, sorted(known))
        self.id = int(key)
        self.session = ObservedSession()
        self._fetches = fetches
        self._found = recording.at_places(CACHES)
        for cache in recording.observed(CACHES).entities.values():
            if isinstance(cache, ObservedSessionCache) and self.id in cache.sessions:
                self.session = cache.sessions[self.id]

    def story(self) -> list[TimelineEntry]:
        """One entry for each request that changed the session, or was refused."""
        found = [
            self._entry(each) for each in sorted(self._fetches, key=lambda each: each.line.time)
        ]
        return [entry for entry in found if entry is not None]

    def ending(self) -> list[str]:
        """The epoch, and the last request that used it; nothing if the session is not in use."""
        used, epoch = self.session.used, self.session.epoch
        if used is None:
            return []
        return [f"session {self.id} is in epoch {epoch}, used last by {used.words}"]

    def _entry(self, exchange: RecordedExchange) -> TimelineEntry | None:
        line, body = exchange.line, exchange.request
        findings = [
            each
            for each in self._found.get(line.place, ())
            if isinstance(each, NOTES | REFUSALS) and each.session == self.id
        ]
        notes = [sentences.said(each) for each in findings if isinstance(each, NOTES)]
        if opened_by(exchange) == self.id:
            return TimelineEntry.at(line, f"{size_of(body)} partitions", notes[-1:], [])
        if session_of(body)[0] != self.id:
            return None
        causes = {each.error: sentences.cause(each) for each in findings}
        part = exchange.response.get("responses")
        codes = [exchange.code] if exchange.code else dict.fromkeys(bodies.errors(part))
        refused = [TimelineError(code, causes.get(code, "")) for code in codes]
        return TimelineEntry.at(line, _said(body), notes, refused) if notes or refused else None


def _said(body: Any) -> str:
    named = size_of(body)
    return f"epoch {body.get('sessionEpoch')}" + (f", names {named} partitions" if named else "")
