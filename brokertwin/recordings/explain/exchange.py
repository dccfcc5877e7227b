"""One exchange of a recording, explained from its timelines."""

from brokertwin.errors import UserError
from brokertwin.recordings.explain.clients import entry_of, groups_of, producers_of, with_cause
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.explain.partitions import causes_in, refused_in
from brokertwin.recordings.explain.producers import ProducerTimeline
from brokertwin.recordings.explain.sessions import SessionTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.history.recording import observed_recording
from brokertwin.recordings.history.sessions import NONE
from brokertwin.recordings.replay.recording import Recording, id_of


def explained(whole: Recording, place: str) -> list[TimelineEntry]:
    """The entries of an exchange in the timelines of its group, producers and fetch session.

    The first one has the causes that partitions show.
    `place`: the exchange's id, `orders.jsonl:120`; `.gz` may stand before the line.

    Raises:
        UserError: there is no such exchange.
    """
    exchange_id, exchanges = id_of(place), whole.exchanges
    found = next((each for each in exchanges if each.id == exchange_id), None)
    if found is None:
        raise UserError(
            f"The recording has no exchange {place}.",
            f"Its exchanges are {exchanges[0].id} to {exchanges[-1].id}. Requests between brokers,"
            " a controller's copies of forwarded ones, and those logged without a body are none."
            if exchanges
            else "It is empty.",
        )
    recording = observed_recording(exchanges)
    stories = [ProducerTimeline(recording, key).story() for key in producers_of(found)]
    stories += [GroupTimeline(recording, key).story() for key in groups_of(found)]
    session = found.body().get("sessionId", NONE) if found.api == "FETCH" else 0
    if session:
        stories.append(SessionTimeline(recording, str(session)).story())
    entries = [entry for story in stories for entry in story if entry.id == exchange_id]
    first, *others = entries or [entry_of(found)]
    named = recording.known.named
    keys = [f"{named(topic)}-{number}" for topic, number in refused_in(found)]
    for _, refused in causes_in(keys, whole, {exchange_id}):
        first = with_cause(first, refused)
    sender = [f"from {found.host}"] * bool(found.host)
    sender += [f"principal {found.principal}"] * bool(found.principal)
    if sender:
        first = first._replace(notes=[", ".join(sender), *first.notes])
    made = [first, *others]
    return [entry for place, entry in enumerate(made) if entry not in made[:place]]
