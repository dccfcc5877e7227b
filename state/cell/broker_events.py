"""Handlers of events that are not requests but are decided by a broker like requests."""

from collections.abc import Callable

from brokertwin.state.apis import share_fetch
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.events import Event, Kind
from brokertwin.state.groups import kinds


def _disconnected(broker: Broker, event: Event) -> Decision:
    client_instances.forget_connection(broker, event.connection)
    return share_fetch.disconnected(broker, event.connection)


HANDLERS: dict[Kind, Callable[[Broker, Event], Decision]] = {
    Kind.EXPIRE_MEMBERS: lambda broker, event: kinds.expire(broker, event.group, event.members),
    Kind.DISCONNECT: _disconnected,
}
"""Kind of an event to its handler."""
