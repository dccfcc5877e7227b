"""Troubles: rules for the requests of a test's clients.

A rule has a filter (API, client, broker, topic and partition), an effect, and a number of requests.
Rules are evaluated in order of creation.
"""

import difflib
import threading
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, TypedDict

from brokertwin.errors import UserError
from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.state.core.errors import Error, error_name
from brokertwin.state.core.kafka_apis import (
    API_VERSIONS,
    KAFKA_APIS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

OF_THE_CONNECTION = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
"""APIs that are answered before rules are evaluated."""

WAIT_S = 10.0
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


class Effect(StrEnum):
    """Effect on a request."""

    FAIL = "fails"
    LOSE = "response lost"
    DROP = "connection dropped"
    DELAY = "response delayed"


class Filters(TypedDict, total=False):
    """Filters of a rule; `client` is a client id."""

    client: str
    broker: int
    topic: str
    partition: int


class RequestFilter(NamedTuple):
    """Filter of requests; None matches any. `client` is a client id."""

    api_key: int
    client: str | None = None
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None

    def has_place(self, topic: str | None, partition: int | None) -> bool:
        """True if the filter matches a partition, or a whole topic (partition None)."""
        is_topic = self.topic is None or topic == self.topic
        return is_topic and (self.partition is None or partition in (None, self.partition))


class Trouble:
    """A rule, returned by methods of `KafkaBroker`; also a context manager.

    Attributes:
        hits: number of affected requests.
    """

    def __init__(
        self,
        effect: Effect,
        where: RequestFilter,
        times: int | None,
        error: int = Error.NONE,
        delay_ms: int = 0,
        closes: bool = True,
    ) -> None:
        if times is not None and times < 1:
            raise UserError(f"Invalid times={times}.", "Pass 1 or more, or None for all requests.")
        self.effect = effect
        self.where = where
        self.error = error
        self.delay_ms = delay_ms
        self.closes = closes
        self.hits = 0
        self._times = times
        self._is_stopped = False
        self._hit = threading.Condition()

    def __repr__(self) -> str:
        return f"<Trouble: {self}, {self.hits} so far>"

    def __str__(self) -> str:
        what = f" with {error_name(self.error)}" if self.effect is Effect.FAIL else ""
        what += f" by {self.delay_ms} ms" if self.effect is Effect.DELAY else ""
        return f"{KAFKA_APIS[self.where.api_key].name} {self.effect}{what}"

    @property
    def is_over(self) -> bool:
        """True if the rule affects no further request."""
        return self._is_stopped or (self._times is not None and self.hits >= self._times)

    def hit(self) -> None:
        """Count an affected request."""
        with self._hit:
            self.hits += 1
            self._hit.notify_all()

    def wait(self, hits: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until the rule has affected a number of requests. Raises TimeoutError."""
        with self._hit:
            if not self._hit.wait_for(lambda: self.hits >= hits, timeout_s):
                raise TimeoutError(f"{self}: {self.hits} of {hits} hits within {timeout_s} s")

    def stop(self) -> None:
        """Stop affecting requests."""
        self._is_stopped = True

    def __enter__(self) -> "Trouble":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def api_key_of(api: str | int) -> int:
    """Return the key of an API, given by name (`PRODUCE`, `Produce`, `init_producer_id`) or key.

    Raises:
        UserError: unknown API, or its requests do not reach the rules.
    """
    names = {_plain(known.name): key for key, known in KAFKA_APIS.items()}
    key = names.get(_plain(api)) if isinstance(api, str) else api
    if key is None or key not in KAFKA_APIS:
        served = {KAFKA_APIS[each].name for each in SERVED}
        near = difflib.get_close_matches(str(api).upper(), served, n=2, cutoff=0.5)
        raise UserError(f"Kafka has no API {api}.", _did_you_mean(near))
    name = KAFKA_APIS[key].name
    if key in OF_THE_CONNECTION:
        raise UserError(f"Cannot inject failures into {name}, which the connection itself handles.")
    if key not in SERVED:
        raise UserError(f"{name} is not implemented, so clients do not send it.")
    return key


def error_of(error: str | int) -> int:
    """Return an error code, given by name (`NOT_LEADER_OR_FOLLOWER`), code or `Error`.

    Raises:
        UserError: unknown name, or not an error.
    """
    if isinstance(error, str):
        if error.upper() not in Error.__members__:
            near = difflib.get_close_matches(error.upper(), Error.__members__, n=2, cutoff=0.5)
            raise UserError(f"Kafka has no error {error}.", _did_you_mean(near))
        error = Error[error.upper()]
    if error == Error.NONE or not INT16_MIN <= error <= INT16_MAX:
        raise UserError(f"{error} is not an error code.")
    return error


def first_of(
    troubles: list[Trouble], effects: frozenset[Effect], is_for: Callable[[RequestFilter], bool]
) -> Trouble | None:
    """Return the first active rule with one of these effects that matches, and count it."""
    for trouble in troubles:
        if trouble.effect in effects and not trouble.is_over and is_for(trouble.where):
            trouble.hit()
            return trouble
    return None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _did_you_mean(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else ""
