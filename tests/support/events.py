"""Events as a caller in the cell's process passes them."""

import msgspec

from brokertwin.state.core.events import Event, decode_event


def within_a_process(document: bytes) -> Event | bytes:
    """Return an event with a dictionary as its body, like those of the gateway."""
    event = decode_event(document)
    if isinstance(event, Event):
        event.request = msgspec.json.decode(event.request)
        return event
    return document
