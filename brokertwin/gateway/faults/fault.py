"""A fault: an effect on some requests of clients.

A fault has an effect, a filter (API, client, broker, topic and partition), and a choice among the
matching requests (`nth`, `times`, `probability`). Faults are evaluated in order of creation.
"""

import difflib
import threading
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct

from brokertwin.errors import UserError
from brokertwin.gateway.faults import failures
from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.kafka_apis import (
    API_VERSIONS,
    KAFKA_APIS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

OF_THE_CONNECTION = frozenset({API_VERSIONS.key, SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
"""APIs that only a fault with their name affects. The test broker has no faults for them."""

WAIT_S = 10.0
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


class Effect(StrEnum):
    FAIL = "fail"
    LOSE = "lose"
    CUT = "cut"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    HOLD = "hold"
    THROTTLE = "throttle"


OUTCOMES = frozenset({Effect.FAIL, Effect.LOSE, Effect.CUT, Effect.DUPLICATE})
TIMINGS = frozenset({Effect.DELAY, Effect.HOLD})
THROTTLES = frozenset({Effect.THROTTLE})

_TITLES = {
    Effect.FAIL: "fails",
    Effect.LOSE: "response lost",
    Effect.CUT: "connection cut",
    Effect.DUPLICATE: "duplicated",
    Effect.DELAY: "delayed",
    Effect.HOLD: "held",
    Effect.THROTTLE: "throttled",
}

_Count = Annotated[int, Meta(ge=1)]
_Milliseconds = Annotated[int, Meta(ge=0)]


class FaultSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault as an entry of a file or a body of the HTTP control."""

    effect: Annotated[
        Effect,
        Meta(
            description="fail: return `error` and do not process the request. lose: process it"
            " and send no response. cut: close the connection without processing it. duplicate:"
            " process it twice and send the second response. delay, hold: process it and send the"
            " response after `ms`, or when the fault is released. throttle: report `ms` as throttle"
            " time and delay the connection's next request by it."
        ),
    ]
    api: Annotated[
        str | int | None,
        Meta(description="Kafka's name or key of the API. Default: all but ApiVersions and SASL."),
    ] = None
    error: Annotated[
        str | int | None, Meta(description="fail: Kafka's name or code of the error.")
    ] = None
    ms: Annotated[
        _Milliseconds | None, Meta(description="delay, throttle: time in milliseconds.")
    ] = None
    closes: Annotated[
        bool,
        Meta(
            description="lose: close the connection. Otherwise the client waits until its timeout,"
            " and this connection receives no further responses."
        ),
    ] = True
    before: Annotated[
        bool, Meta(description="delay, hold: the request waits, instead of the response.")
    ] = False
    client: Annotated[str | None, Meta(description="Only requests with this client id.")] = None
    broker: Annotated[int | None, Meta(description="Only requests to the broker with this id.")] = (
        None
    )
    topic: Annotated[
        str | None,
        Meta(description="Only requests with this topic; fail: return the error for it only."),
    ] = None
    partition: Annotated[int | None, Meta(description="With `topic`: only this partition.")] = None
    nth: Annotated[
        _Count, Meta(description="Number of the first matching request to affect, from 1.")
    ] = 1
    times: Annotated[
        _Count | Literal["all"],
        Meta(description="Number of affected requests; all: until the fault is released."),
    ] = 1
    probability: Annotated[
        float,
        Meta(gt=0, le=1, description="Probability for each matching request from the nth on."),
    ] = 1.0
    seed: Annotated[int, Meta(description="Seed of the random numbers for `probability`.")] = 0
    name: Annotated[
        str | None, Meta(description="Name of the fault in lists and in recorded requests.")
    ] = None


class Fault:
    """A fault that is in force; also a context manager.

    Args:
        number: its id in its `FaultSet`.

    Attributes:
        hits: number of affected requests.
        matches: number of requests that passed its filter.

    Raises:
        UserError: unknown API or error, or a value that does not fit the effect.
    """

    def __init__(self, spec: FaultSpec, number: int = 0) -> None:
        spec = read_spec(msgspec.to_builtins(spec))
        self.spec = spec
        self.number = number
        self.effect = spec.effect
        self.api_key = None if spec.api is None else api_key_of(spec.api)
        self.error = Error.NONE if spec.error is None else error_of(spec.error)
        _check(self)
        self.hits = 0
        self.matches = 0
        self._random = Random(spec.seed)
        self._is_stopped = False
        self._held: list[Callable[[], object]] = []
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"<Fault: {self}, {self.hits} so far>"

    def __str__(self) -> str:
        api = "any request" if self.api_key is None else KAFKA_APIS[self.api_key].name
        what = f"{api} {_TITLES[self.effect]}"
        if self.effect is Effect.FAIL:
            what += f" with {error_name(self.error)}"
        if self.spec.ms is not None:
            what += f" by {self.spec.ms} ms"
        return f"{self.spec.name}: {what}" if self.spec.name else what

    @property
    def is_over(self) -> bool:
        """True if the fault affects no further request."""
        times = self.spec.times
        return self._is_stopped or (times != "all" and self.hits >= times)

    @property
    def held(self) -> int:
        """Number of requests or responses that wait for `release`."""
        return len(self._held)

    def has_place(self, topic: str | None, partition: int | None) -> bool:
        """True if the filter matches a partition, or a whole topic (partition None)."""
        is_topic = self.spec.topic is None or topic == self.spec.topic
        return is_topic and (
            self.spec.partition is None or partition in (None, self.spec.partition)
        )

    def chooses(self) -> bool:
        """Count a matching request; return True if the fault affects it."""
        self.matches += 1
        if self.is_over:
            return False
        is_drawn = self.spec.probability >= 1 or self._random.random() < self.spec.probability
        return is_drawn and self.matches >= self.spec.nth

    def hit(self) -> None:
        """Count an affected request."""
        with self._changed:
            self.hits += 1
            self._changed.notify_all()

    def hold(self, go_on: Callable[[], object]) -> None:
        """Call a function, without arguments and from any thread, after the release."""
        with self._changed:
            if not self._is_stopped:
                self._held.append(go_on)
                return
        go_on()

    def wait(self, hits: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until the fault has affected a number of requests. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= hits, timeout_s):
                raise TimeoutError(f"{self}: {self.hits} of {hits} hits within {timeout_s} s")

    def release(self) -> None:
        """End the fault; held requests continue, in order."""
        with self._changed:
            self._is_stopped = True
            held, self._held = self._held, []
        for go_on in held:
            go_on()

    stop = release

    def __enter__(self) -> "Fault":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def read_spec(document: Any) -> FaultSpec:
    """Convert a document to a fault. Raises UserError that names the field and a remedy."""
    try:
        return msgspec.convert(document, FaultSpec)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        field = place.strip("`$.")
        hint = ""
        if "unknown field" in what:
            unknown = what.rpartition("unknown field ")[2].strip("`")
            near = difflib.get_close_matches(unknown, FaultSpec.__struct_fields__, n=1)
            hint = _did_you_mean(near) or f"Fields: {', '.join(FaultSpec.__struct_fields__)}."
            raise UserError(f"A fault has no field {unknown}.", hint) from None
        if field == "effect":
            hint = f"Use one of {', '.join(Effect)}."
        elif field in FaultSpec.__struct_fields__:
            hints = get_type_hints(FaultSpec, include_extras=True)
            hint = hints[field].__metadata__[-1].description
        if not field:
            hint = 'Example: {"effect": "fail", "api": "PRODUCE", "error": "REQUEST_TIMED_OUT"}.'
            raise UserError(f"Invalid fault: {_lower(what)}.", hint) from None
        value = document.get(field) if isinstance(document, dict) else document
        raise UserError(f"Invalid {field}={value!r}: {_lower(what)}.", hint) from None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")


def _check(fault: Fault) -> None:
    """Raise UserError if values do not fit the effect or each other."""
    spec, effect = fault.spec, fault.effect
    if (spec.error is None) == (effect is Effect.FAIL):
        rule = "requires an error" if effect is Effect.FAIL else "accepts no error"
        raise UserError(f"The effect {effect} {rule}.", "Example: NOT_LEADER_OR_FOLLOWER.")
    has_time = effect in (Effect.DELAY, Effect.THROTTLE)
    if (spec.ms is None) == has_time:
        rule = "requires ms" if has_time else "accepts no ms"
        raise UserError(f"The effect {effect} {rule}.", "Only delay and throttle accept ms.")
    if spec.before and effect not in TIMINGS:
        raise UserError(
            f"The effect {effect} accepts no before.", "Only delay and hold accept before."
        )
    if not spec.closes and effect is not Effect.LOSE:
        raise UserError(f"The effect {effect} accepts no closes.", "Only lose accepts closes.")
    if spec.partition is not None and spec.topic is None:
        raise UserError(f"partition={spec.partition} requires a topic.", "Pass topic as well.")
    key = fault.api_key
    if spec.topic is not None and key is not None and not failures.names_topics(key):
        raise UserError(f"{KAFKA_APIS[key].name} requests have no topics.", "Omit topic.")
    if effect is Effect.FAIL and key == API_VERSIONS.key:
        raise UserError(f"{KAFKA_APIS[key or 0].name} cannot fail with an error.", "Use cut.")


def api_key_of(api: str | int) -> int:
    """Return the key of an API, given by name (`PRODUCE`, `Produce`, `init_producer_id`) or key.

    Raises:
        UserError: unknown API.
    """
    names = {_plain(each.name): key for key, each in KAFKA_APIS.items()}
    key = names.get(_plain(api)) if isinstance(api, str) else api
    if key is None or key not in KAFKA_APIS:
        known = [each.name for each in KAFKA_APIS.values()]
        near = difflib.get_close_matches(str(api).upper(), known, n=2, cutoff=0.5)
        raise UserError(f"Kafka has no API {api}.", _did_you_mean(near))
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
        raise UserError(
            f"{error} is not an error code of Kafka.", "Pass a name like REQUEST_TIMED_OUT."
        )
    return error


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _did_you_mean(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}?" if near else ""
