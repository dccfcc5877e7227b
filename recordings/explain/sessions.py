"""The story of a fetch session: who opened it, what it looks at, how it ended.

It follows what the broker answered, in the order of the answers. Fetches of a session that changed
nothing are left out; they count as its use.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from brokertwin.recordings.explain import bodies
from brokertwin.recordings.explain.story import Entry, Refused, absent, in_order, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

NONE = 0
"""No session."""


class Sessions:
    """What a recording says of a fetch session.

    Attributes:
        id: the session's id.
        epoch: the epoch that its next request has to have.
        used: its last request that was taken; None before it is opened, and when it is closed.

    Raises:
        UserError: the recording has no such session.
    """

    def __init__(self, exchanges: Sequence[Exchange], key: str) -> None:
        fetches = [(each, body) for each, body in in_order(exchanges, ["FETCH"]) if each.response]
        known = {each.response["sessionId"] for each, body in fetches if _opens(each, body)}
        known |= {body.get("sessionId", NONE) for _, body in fetches} - {NONE}
        if not key.isdecimal() or int(key) not in known:
            raise absent("fetch session", key, sorted(known))
        self.id = int(key)
        self.epoch = INITIAL_EPOCH
        self.used: Exchange | None = None
        self._closed: Exchange | None = None
        self._opened_since: Counter[str] = Counter()
        self._fetches = fetches

    def story(self) -> list[Entry]:
        """One entry for each request that changed the session, or was refused."""
        found = [self._entry(exchange, body) for exchange, body in self._fetches]
        return [entry for entry in found if entry is not None]

    def ending(self) -> list[str]:
        """The epoch, and the request that used it last; nothing of a session that was not used."""
        if self.used is None:
            return []
        return [f"session {self.id} is in epoch {self.epoch}, used last by {words(self.used)}"]

    def _entry(self, exchange: Exchange, body: Any) -> Entry | None:
        response, opens = exchange.response, _opens(exchange, body)
        if opens and response.get("sessionId") == self.id:
            self.epoch, self.used = next_epoch(INITIAL_EPOCH), exchange
            self._opened_since.clear()
            return Entry.of(exchange, f"{_size(body)} partitions", ["opens the session"], [])
        if body.get("sessionId", NONE) != self.id:
            if opens:
                self._opened_since[exchange.header.client_id or "?"] += 1
            return None
        if response.get("errorCode"):
            code = response["errorCode"]
            return Entry.of(exchange, _said(body), [], [Refused(code, self._because(code, body))])
        notes = list(self._taken(exchange, body, response))
        codes = dict.fromkeys(bodies.errors(response.get("responses")))
        refused = [Refused(code) for code in codes]
        return Entry.of(exchange, _said(body), notes, refused) if notes or refused else None

    def _taken(self, exchange: Exchange, body: Any, response: Any) -> Iterator[str]:
        """Takes a request that the broker took; gives back what it changed."""
        epoch = body.get("sessionEpoch", INITIAL_EPOCH)
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._closed, self.used = exchange, None
            other = response.get("sessionId", NONE)
            yield "closes the session" + (f", and opens {other}" if other else "")
            return
        self.used, self.epoch = exchange, next_epoch(epoch)
        self._opened_since.clear()
        forgotten = sum(len(each["partitions"]) for each in body.get("forgottenTopicsData") or ())
        if forgotten:
            yield f"forgets {forgotten} partitions"

    def _because(self, code: int, body: Any) -> str:
        epoch = body.get("sessionEpoch", INITIAL_EPOCH)
        if code == Error.INVALID_FETCH_SESSION_EPOCH and self.used is not None:
            last = words(self.used)
            return f"The request has epoch {epoch}; after {last} it has to be {self.epoch}."
        if code != Error.FETCH_SESSION_ID_NOT_FOUND:
            return ""
        if self._closed is not None:
            return f"The session was closed: {words(self._closed)}."
        if self.used is None:
            return "The recording has no answer that opened it."
        others = ", ".join(f"client {name} ({n})" for name, n in self._opened_since.most_common())
        return (
            f"It was used last by {words(self.used)}, and has made room for another since"
            " (max.incremental.fetch.session.cache.slots), or its broker was started again."
            + (f" Sessions that were opened in between: {others}." if others else "")
        )


def _opens(exchange: Exchange, body: Any) -> bool:
    """Whether a request asks for a new session, and gets one."""
    asks = body.get("sessionEpoch", FINAL_EPOCH) == INITIAL_EPOCH
    return bool(asks and exchange.response.get("sessionId", NONE) != NONE)


def _size(body: Any) -> int:
    return sum(len(each["partitions"]) for each in body.get("topics") or ())


def _said(body: Any) -> str:
    """A request in words."""
    named = _size(body)
    return f"epoch {body.get('sessionEpoch')}" + (f", names {named} partitions" if named else "")
