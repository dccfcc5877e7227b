"""Find the earlier writes that a response without records waits for (`Api.earlier_writes`)."""

from typing import Any

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Asked, Request
from brokertwin.state.core.schema import Body
from brokertwin.state.replication import copying
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.internal_logs import Required


def body_of(asked: Asked, api: Api) -> Body | None:
    """Return the request's body, or None if a pending request does not keep it."""
    if isinstance(asked, Request):
        body: Body = asked.body
        return body
    return api.pending_body(asked) if api.pending_body is not None else None


def required(broker: Broker, api: Api, body: Body, response: Any) -> list[Required]:
    """Return what must be committed before a response without records is sent."""
    found = []
    places = api.earlier_writes(broker, body, response) if api.earlier_writes is not None else ()
    for place in dict.fromkeys(places):
        log = broker.log(*place) if place is not None and _leads(broker, place) else None
        if place is not None and log is not None and log.high_watermark < log.log_end_offset:
            found.append(Required(*place, log.log_end_offset))
    return found


def _leads(broker: Broker, place: Place) -> bool:
    partition = copying.partition_of(broker, place)
    return partition is not None and partition.leader == broker.id
