"""An implemented API: its row in Kafka's table, bodies and handlers."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from brokertwin.protocol import codec
from brokertwin.protocol.bodies import Body, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.kafka_apis import Decider, KafkaApi
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request, Resumed
from brokertwin.state.core.settings import BrokerSettings


class NotBuilt(Exception):
    """Raised for a part of an API that is not implemented. The error message names the part."""


class Refused(Exception):
    """Raised by `Api.handle`: the response is an error alone. Changed volatile state stays.

    `fields` are other fields of the response, `resumed` responses to other pending requests.
    """

    def __init__(self, error: Error, message: str | None = None, **fields: Any) -> None:
        super().__init__(error, message)
        self.error, self.message, self.fields = error, message, fields
        self.resumed: list[Resumed] = []

    def decision(self, api: "Api") -> Decision:
        fields = {"error_code": int(self.error), **self.fields}
        if self.message is not None:
            fields["error_message"] = self.message
        return Decision(response=api.response_type(**fields), resumed=self.resumed)


class Api(msgspec.Struct, frozen=True):
    """An API and the handlers of its requests.

    Attributes:
        kafka: the facts that do not need this code (`brokertwin/protocol/kafka_apis.py`).
        handle: decides on a request: `handle(machine, request)`, on a broker or the controller.
            Raises Refused.
        ready: whether a pending request can complete before its deadline: `ready(broker,
            waiting)`.
        complete: responds to a pending request: `complete(broker, waiting)`.
        resume: takes the reply that a pending request waits for: `resume(broker, waiting, message,
            response)`.
        on_reply: takes a reply that no request waits for: `on_reply(machine, message, response)`.
        earlier_writes: the partitions of internal topics whose present content must be committed
            before a response without records is sent: `earlier_writes(broker, body, response)`.
        results: the error codes of a response that are results: if nothing is committed, they are
            replaced.
        uncommitted: the response if nothing is committed: `uncommitted(response, error, settings)`,
            with the error of the log. By default the error replaces each result.
        commit_timeout_ms: how long the response waits for the commit, in place of the coordinator's
            time-out.
        is_sent_when_committed: whether a message of this API is sent only after the records of the
            decision that sends it are committed.
        completes_syncs: whether committed records of a group complete its members' SyncGroups.
        pending_body: the body of a pending request that writes: `pending_body(waiting)`.
        outlives_leader: whether a pending request still waits if another broker leads a partition.
        key: of `kafka`, like the other fields from here on: each event reads them.
        name: in Kafka's request log.
        versions: the first and the last one; `served` has all.
        on_controller: whether the controller decides.
        request_type, response_type: the bodies.
    """

    kafka: KafkaApi
    handle: Callable[[Any, Request], Decision]
    ready: Callable[[Any, PendingRequest], bool] | None = None
    complete: Callable[[Any, PendingRequest], Decision] | None = None
    resume: Callable[[Any, PendingRequest, Message, Any], Decision] | None = None
    on_reply: Callable[[Any, Message, Any], Decision] | None = None
    earlier_writes: Callable[[Any, Any, Any], Iterable[tuple[Uuid, int] | None]] | None = None
    results: frozenset[Error] = frozenset({Error.NONE})
    uncommitted: Callable[[Any, Error, BrokerSettings], Body] | None = None
    commit_timeout_ms: Callable[[BrokerSettings], int] | None = None
    is_sent_when_committed: bool = False
    completes_syncs: bool = False
    pending_body: Callable[[PendingRequest], Body] | None = None
    outlives_leader: bool = False

    key: int = -1
    name: str = ""
    versions: tuple[int, int] = (0, -1)
    served: frozenset[int] = frozenset()
    on_controller: bool = False
    request_type: type[Body] = Body
    response_type: type[Body] = Body

    def __post_init__(self) -> None:
        kafka = self.kafka
        msgspec.structs.force_setattr(self, "key", kafka.key)
        msgspec.structs.force_setattr(self, "name", kafka.name)
        msgspec.structs.force_setattr(self, "versions", (kafka.first, kafka.last))
        served = frozenset(range(kafka.first, kafka.last + 1))
        msgspec.structs.force_setattr(self, "served", served)
        is_controllers = kafka.handler is Decider.CONTROLLER
        msgspec.structs.force_setattr(self, "on_controller", is_controllers)
        if self.request_type is Body:
            msgspec.structs.force_setattr(self, "request_type", codec.request_type(kafka.key))
            msgspec.structs.force_setattr(self, "response_type", codec.response_type(kafka.key))

    def decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.request_type)
