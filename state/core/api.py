"""What an API of Kafka's protocol is to a cell: its key, its bodies, and its handlers."""

from collections.abc import Callable
from typing import Any

import msgspec

from brokertwin.state.core.decision import Decision, Message, Request, Waiting
from brokertwin.state.core.schema import Body


class NotBuilt(Exception):
    """Raised by a handler for a part of its API that is not built yet; the text says which."""


class Api(msgspec.Struct, frozen=True):
    """An API of Kafka's protocol and the handlers of its requests.

    `handle(machine, request)` runs on a broker, or on the controller where `on_controller` is true
    (a broker forwards it there, KIP-590). `ready(broker, waiting)` says whether a delayed request
    may be answered before its deadline, `complete(broker, waiting)` answers it. `resume(broker,
    waiting, message, response)` takes the answer that a request waits for, `on_reply(machine,
    message, response)` one that nobody waits for (`Message` says which). An API that machines ask
    for its answer has a `response_type`, in which an answer comes from another cell.
    """

    key: int
    name: str
    versions: tuple[int, int]
    request_type: type[Body]
    handle: Callable[[Any, Request], Decision]
    on_controller: bool = False
    ready: Callable[[Any, Waiting], bool] | None = None
    complete: Callable[[Any, Waiting], Decision] | None = None
    resume: Callable[[Any, Waiting, Message, Any], Decision] | None = None
    on_reply: Callable[[Any, Message, Any], Decision] | None = None
    response_type: type[Body] | None = None

    def decoder(self) -> msgspec.json.Decoder[Any]:
        """A JSON decoder of this API's requests."""
        return msgspec.json.Decoder(self.request_type)
