"""The events of a schedule up to a given moment."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from brokertwin.errors import UserError
from brokertwin.recordings.replay.recording import id_of
from brokertwin.state.core.events import Event, Kind, decode_event


def events_until(documents: Sequence[bytes], until: str, zone: tzinfo, option: str) -> list[bytes]:
    """Return the events up to the end of an exchange, or up to a time.

    Args:
        documents: the events, in order.
        until: an exchange id (`orders.jsonl:120`), ISO 8601, or ms since 1970.
        zone: the time zone of a time without one.
        option: name of the option or argument, for the error.

    Raises:
        UserError: it is neither.
    """
    events = [decode_event(document) for document in documents]
    place_named = id_of(until)
    places = [
        place
        for place, event in enumerate(events)
        if isinstance(event, Event) and place_named in (event.id, event.of)
    ]
    if places:
        return list(documents[: places[-1] + 1])
    latest = _ms_of(until, zone, option)
    later = (
        place
        for place, event in enumerate(events)
        if isinstance(event, Event) and event.time > latest
    )
    return list(documents[: next(later, len(documents))])


def events_around(documents: Sequence[bytes], place: str) -> tuple[list[bytes], list[bytes]]:
    """Return the events before an exchange's request, and those including it.

    Raises:
        UserError: no event is that request.
    """
    exchange_id = id_of(place)
    for number, document in enumerate(documents):
        event = decode_event(document)
        if isinstance(event, Event) and event.id == exchange_id:
            return list(documents[:number]), list(documents[: number + 1])
    raise UserError(f"{place} was not handled: its connection was lost, or it is not an exchange.")


def requests_in(documents: Sequence[bytes]) -> int:
    """Count the recorded requests among the events."""
    events = map(decode_event, documents)
    requests = (each for each in events if isinstance(each, Event) and each.kind is Kind.REQUEST)
    return sum("earlier/" not in each.id for each in requests)


def _ms_of(text: str, zone: tzinfo, option: str) -> int:
    if text.isdecimal():
        return int(text)
    found = ms_of_iso(text, zone)
    if found is None:
        raise UserError(
            f"Invalid value of {option}: {text!r} is neither an exchange of the recording nor a"
            " time.",
            "Pass the exchange's file and line (orders.jsonl:120), a time"
            " (2026-03-01T12:00:03), or ms since 1970.",
        )
    return found


def ms_of_iso(text: str, zone: tzinfo) -> int | None:
    """Convert ISO 8601 to ms since 1970; None for other text."""
    try:
        named = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((named if named.tzinfo else named.replace(tzinfo=zone)).timestamp() * 1000)
