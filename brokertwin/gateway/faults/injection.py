"""Selection of a request's faults, and their effects.

A `FaultSet` selects at most one fault of each kind for a request: an outcome (fail, lose, cut,
duplicate), a time (delay, hold) and a throttle. The `Injection` has the body that the broker
processes, and changes its response. The test broker and the proxy apply it.
"""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.faults import failures
from brokertwin.gateway.faults.failures import RequestedFetchPartition
from brokertwin.gateway.faults.fault import (
    OF_THE_CONNECTION,
    OUTCOMES,
    THROTTLES,
    TIMINGS,
    Effect,
    Fault,
    FaultSpec,
)
from brokertwin.gateway.refusals import listed_items
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import FETCH, METADATA, PRODUCE

NO_ACKS = 0
FAULTS_MAX = 1000
"""Maximum number of faults in force."""


class KnownTopics(Protocol):
    """Topics and fetch sessions, which a request may name by id or not at all."""

    def name_of(self, topic_id: str) -> str | None:
        """Return the name of a topic."""

    def topic_names(self) -> list[str] | None:
        """Return all topics; None if they are not known."""

    def fetched(
        self, request: RequestFrame, broker: int | None
    ) -> Iterable[RequestedFetchPartition]:
        """Return the partitions of a Fetch: those that it names, and those of its session."""


class FaultSet:
    """The faults in force, in order of evaluation. Safe for use by several threads.

    Attributes:
        faults: the current faults; a change replaces the tuple.
    """

    def __init__(self, specs: Iterable[FaultSpec] = ()) -> None:
        self.faults: tuple[Fault, ...] = ()
        self._count = 0
        self._lock = threading.Lock()
        for spec in specs:
            self.add(spec)

    def add(self, spec: FaultSpec) -> Fault:
        """Add a fault. Raises UserError as `Fault`, or if there are too many."""
        with self._lock:
            if len(self.faults) >= FAULTS_MAX:
                raise UserError(f"There are {FAULTS_MAX} faults already.", "Delete some first.")
            fault = Fault(spec, self._count + 1)
            self._count += 1
            self.faults = (*self.faults, fault)
            return fault

    def get(self, number: int) -> Fault | None:
        return next((fault for fault in self.faults if fault.number == number), None)

    def remove(self, number: int) -> Fault | None:
        """Remove a fault, release its held requests, and return it."""
        with self._lock:
            result = self.get(number)
            self.faults = tuple(fault for fault in self.faults if fault is not result)
        if result is not None:
            result.release()
        return result

    def forget_ended(self) -> None:
        """Remove faults that affect no further request and hold nothing."""
        with self._lock:
            self.faults = tuple(each for each in self.faults if not each.is_over or each.held)

    def clear(self) -> None:
        with self._lock:
            removed, self.faults = self.faults, ()
        for fault in removed:
            fault.release()

    def inject(
        self, request: RequestFrame, broker: int | None, knowledge: KnownTopics
    ) -> "InjectedFaults | None":
        """Select the faults of a request and count them; None if there is none.

        `broker` is the id of its broker, None if unknown. Record sets are not read.
        """
        if not self.faults:
            return None
        faults = [self._first(kinds, request, broker, knowledge) for kinds in _KINDS]
        return InjectedFaults(*faults) if any(faults) else None

    def _first(
        self,
        kinds: frozenset[Effect],
        request: RequestFrame,
        broker: int | None,
        knowledge: KnownTopics,
    ) -> Fault | None:
        """Return the first fault of a kind that chooses the request; all that match count it."""
        candidates = [each for each in self.faults if each.effect in kinds]
        matching = [each for each in candidates if is_for(each, request, broker, knowledge)]
        chosen = [each for each in matching if each.chooses()]
        if not chosen:
            return None
        chosen[0].hit()
        return chosen[0]


_KINDS = (OUTCOMES, TIMINGS, THROTTLES)


def is_for(fault: Fault, request: RequestFrame, broker: int | None, knowledge: KnownTopics) -> bool:
    """True if a request passes the filter of a fault."""
    spec, api_key = fault.spec, request.api_key
    if fault.api_key is None:
        if api_key in OF_THE_CONNECTION:
            return False
    elif fault.api_key != api_key:
        return False
    if spec.client not in (None, request.header.get("clientId")):
        return False
    if spec.broker not in (None, broker):
        return False
    if api_key == METADATA.key and (spec.topic is not None or fault.effect is Effect.FAIL):
        return _is_for_metadata(fault, request, knowledge)
    if spec.topic is None:
        return True
    if api_key == FETCH.key:
        places = knowledge.fetched(request, broker)
        return any(fault.has_place(place.topic, place.partition) for place in places)
    parts = _split(fault, request, knowledge)
    return bool(parts and parts.failing)


def _is_for_metadata(fault: Fault, request: RequestFrame, knowledge: KnownTopics) -> bool:
    """True if the request has topics, because a response without them has no error code."""
    frame = _spelled_out(request, knowledge)
    if _wants_all(frame):
        return True
    parts = _split(fault, frame, knowledge)
    return bool(parts and parts.failing)


def _wants_all(request: RequestFrame) -> bool:
    topics = request.body["topics"]
    return topics is None or (request.version == 0 and not topics)


def _spelled_out(request: RequestFrame, knowledge: KnownTopics) -> RequestFrame:
    """Expand a Metadata request for all topics to their names, if they are known."""
    names = knowledge.topic_names() if _wants_all(request) else None
    if names is None:
        return request
    return request._replace(body={**request.body, "topics": [{"name": name} for name in names]})


def _split(fault: Fault, request: RequestFrame, knowledge: KnownTopics) -> failures.Parts | None:
    """Split a request's items by the filter; None if the API has no topics."""
    mirror = failures.mirror_of(request)
    if mirror is None:
        return None
    items = listed_items(request.body, mirror)
    return failures.split(items, mirror, fault.has_place, knowledge.name_of)


class Plan(NamedTuple):
    """Processing of a request under its faults.

    `forwarded` is the body for the broker, None if the broker does not get the request. `refused`
    is the part that the broker does not get. `respond` returns the response, given the broker's or
    None; its result is None if the client gets none.
    """

    forwarded: Body | None
    refused: Body
    respond: Callable[[Body | None], Body | None]


class InjectedFaults(NamedTuple):
    """Faults of one request: at most one of each kind."""

    outcome: Fault | None
    timing: Fault | None
    throttle: Fault | None

    def __str__(self) -> str:
        return " and ".join(str(fault) for fault in self if fault)

    @property
    def effect(self) -> Effect | None:
        return None if self.outcome is None else self.outcome.effect

    @property
    def error(self) -> int:
        """The error code that a fault puts into the response; 0 without one."""
        return 0 if self.outcome is None else self.outcome.error

    @property
    def timing_before(self) -> Fault | None:
        return self.timing if self.timing is not None and self.timing.spec.before else None

    @property
    def timing_after(self) -> Fault | None:
        return None if self.timing is None or self.timing.spec.before else self.timing

    @property
    def throttle_ms(self) -> int:
        return 0 if self.throttle is None else self.throttle.spec.ms or 0

    def plan(self, request: RequestFrame, broker: int | None, knowledge: KnownTopics) -> Plan:
        """Return the processing of the request.

        A Produce with acks 0 that fails has no response: its connection must be closed.
        """
        plan = Plan(request.body, {}, lambda response: response)
        if self.outcome is not None and self.outcome.effect is Effect.FAIL:
            plan = _failed(self.outcome, request, broker, knowledge)
        elif self.outcome is not None and self.outcome.effect is Effect.CUT:
            plan = Plan(None, request.body, lambda _: None)
        if self.throttle is None:
            return plan

        def throttled(response: Body | None) -> Body | None:
            made = plan.respond(response)
            return made and {**made, "throttleTimeMs": self.throttle_ms}

        return plan._replace(respond=throttled)


def _failed(
    fault: Fault, request: RequestFrame, broker: int | None, knowledge: KnownTopics
) -> Plan:
    """Return an error; only the rest of the request is processed."""
    api_key = request.api_key
    if api_key == METADATA.key:
        return _failed_metadata(fault, _spelled_out(request, knowledge), knowledge)
    if api_key == FETCH.key and fault.error not in failures.OF_FETCH_SESSIONS:
        return _failed_fetch(fault, request, broker, knowledge)
    mirror = failures.mirror_of(request)
    parts = _split(fault, request, knowledge)
    if fault.spec.topic is None or api_key == FETCH.key or parts is None or mirror is None:
        return _all_refused(request, failures.whole(request, fault.error))
    errors = failures.part(request, parts.failing, mirror, fault.error)
    if not parts.rest:
        return _all_refused(request, errors)

    def merged(response: Body | None) -> Body | None:
        return response and failures.merge(response, errors, mirror)

    refused = {"topicData": parts.failing} if api_key == PRODUCE.key else {}
    return Plan({**request.body, mirror.request_list: parts.rest}, refused, merged)


def _all_refused(request: RequestFrame, response: Body) -> Plan:
    is_one_way = request.api_key == PRODUCE.key and request.body.get("acks") == NO_ACKS
    return Plan(None, request.body, lambda _: None if is_one_way else response)


def _failed_metadata(fault: Fault, request: RequestFrame, knowledge: KnownTopics) -> Plan:
    """Process Metadata for brokers; topics get the error and are not created."""
    if _wants_all(request):
        return Plan(
            request.body,
            {},
            lambda response: (
                response and failures.put_into_all_metadata(response, fault.has_place, fault.error)
            ),
        )
    parts = _split(fault, request, knowledge)
    assert parts is not None, "Metadata has topics"

    def with_errors(response: Body | None) -> Body | None:
        if response is None:
            return None
        if not parts.rest:
            response = {**response, "topics": []}  # in version 0 no names mean all topics
        return failures.put_into_metadata(response, parts.failing, fault.error)

    return Plan({**request.body, "topics": parts.rest}, {}, with_errors)


def _failed_fetch(
    fault: Fault, request: RequestFrame, broker: int | None, knowledge: KnownTopics
) -> Plan:
    """Process the session; its partitions get the error and no records.

    If the Fetch itself is rejected, it fails as a whole.
    """

    def with_errors(response: Body | None) -> Body | None:
        places = [
            place
            for place in knowledge.fetched(request, broker)
            if fault.has_place(place.topic, place.partition)
        ]
        if response is None or response.get("errorCode") or not places:
            return failures.whole(request, fault.error)
        return failures.put_into_fetch(response, places, fault.error)

    return Plan({**request.body, "maxWaitMs": 0}, {}, with_errors)
