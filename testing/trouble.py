"""Trouble: rules that the requests of a test's clients run into.

A rule says which requests it is for (API, client, broker, topic and partition), what happens to
them, and how many of them it takes. Rules are looked at in the order in which they were made.
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
"""APIs that are answered before any rule is looked at."""

WAIT_S = 10.0
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


class Effect(StrEnum):
    """What happens to a request."""

    FAIL = "fails"
    LOSE = "answer lost"
    DROP = "connection dropped"
    DELAY = "answer delayed"


class Filters(TypedDict, total=False):
    """What a rule can be narrowed to; `client` is a client id."""

    client: str
    broker: int
    topic: str
    partition: int


class Where(NamedTuple):
    """Which requests a rule is for; None is any. `client` is a client id."""

    api_key: int
    client: str | None = None
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None

    def has_place(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition, or a topic as a whole (partition None), is meant."""
        is_topic = self.topic is None or topic == self.topic
        return is_topic and (self.partition is None or partition in (None, self.partition))


class Trouble:
    """A rule. The verbs of `KafkaBroker` give it back; it can be used in a `with`, too.

    Attributes:
        hits: how many requests have run into it.
    """

    def __init__(
        self,
        effect: Effect,
        where: Where,
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
        """Whether no further request will run into it."""
        return self._is_stopped or (self._times is not None and self.hits >= self._times)

    def hit(self) -> None:
        """Count a request that has run into it."""
        with self._hit:
            self.hits += 1
            self._hit.notify_all()

    def wait(self, hits: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until so many requests have run into it. Raises TimeoutError."""
        with self._hit:
            if not self._hit.wait_for(lambda: self.hits >= hits, timeout_s):
                raise TimeoutError(f"{self}: {self.hits} of {hits} hits within {timeout_s} s")

    def stop(self) -> None:
        """Let no further request run into it."""
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
    """The key of an API by Kafka's name (`PRODUCE`, `Produce`, `init_producer_id`) or its key.

    Raises:
        UserError: there is none, or no request of it reaches the rules.
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
    """An error by Kafka's name (`NOT_LEADER_OR_FOLLOWER`), its code or `Error`.

    Raises:
        UserError: there is no such name, or it is no error.
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
    troubles: list[Trouble], effects: frozenset[Effect], is_for: Callable[[Where], bool]
) -> Trouble | None:
    """The first rule with one of these effects that is for a request; it has hit it then."""
    for trouble in troubles:
        if trouble.effect in effects and not trouble.is_over and is_for(trouble.where):
            trouble.hit()
            return trouble
    return None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _did_you_mean(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else ""
