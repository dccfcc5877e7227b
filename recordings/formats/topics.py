"""Recorded exchanges in topics: what `capture --topic` wrote, and what a job was asked.

A job's request and its answer become one line as a capture has it. A job handles what it is asked
in the order of offsets, and its clock never goes back: a request's time here is never before that
of the one before in its partition, and never after its answer's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io import job_exchanges, placement
from brokertwin.kafka_io.job_exchanges import JobExchanges
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.recordings.formats.documents import Document, Left
from brokertwin.recordings.formats.lines import Line
from brokertwin.recordings.formats.pipeline import Reading, Source, read_lines
from brokertwin.recordings.formats.summary import Summary
from brokertwin.state.core.events import Event, Kind, Refusal, decode_event

Observe = Callable[[int], None]

OTHER_KIND = "an event of the job that is no client's request"
REPEATED = "an id that came before: of a repeat the first counts"
NO_ANSWER = "the job made a dead letter of it"


class _Answer(msgspec.Struct, rename="camel"):
    """A row of `responses`; `error` in place of the answer is a dead letter's."""

    response_time: int = 0
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Placed(NamedTuple):
    """An exchange, its line number being the offset, and the request as it was sent."""

    line: Line
    event: Event
    answer: _Answer | None


_answer_decoder = msgspec.json.Decoder(_Answer)
_encoder = msgspec.json.Encoder()


def of_topic(
    client: ClientProperties, topic: str, reading: Reading, observe: Observe = lambda _: None
) -> Source:
    """What `capture --topic` wrote.

    Args:
        client: how to reach Kafka.
        topic: its name.
        reading: how logs are read.
        observe: is told how many rows are left.
    """

    def documents(summary: Summary) -> Iterator[Document]:
        lines = (
            Line(f"{topic}/{row.partition}", row.offset, row.value)
            for row in read_all(client, topic, None, observe)
            if row.value
        )
        return read_lines(lines, topic, reading, summary)

    return documents


def of_job(
    client: ClientProperties,
    prefix: str,
    cluster: str | None = None,
    observe: Observe = lambda _: None,
) -> Source:
    """What a job was asked and has answered; requests that still wait have no answer.

    Args:
        client: how to reach Kafka.
        prefix: of the job's topics.
        cluster: one of its clusters; None where it has but one.
        observe: is told how many rows are left.
    """

    def documents(summary: Summary) -> Iterator[Document]:
        placements = placement.read(client, prefix)
        given = job_exchanges.read(client, prefix, observe)
        found = list(_placed(given, placements, prefix, summary))
        clusters = sorted({each.event.cluster for each in found})
        wanted = cluster or (clusters[0] if len(clusters) == 1 else None)
        if found and wanted not in clusters:
            raise UserError(
                f"The job has requests of several clusters: {', '.join(clusters)}.",
                "Select one with --cluster.",
            )
        mine = [each for each in found if each.event.cluster == wanted]
        return read_lines(_lines(mine), prefix, Reading(), summary)

    return documents


def _placed(
    given: JobExchanges, placements: Mapping[str, Placement], prefix: str, summary: Summary
) -> Iterator[_Placed]:
    """What clients did, each id once, at the time that the job took; the rest is counted."""
    seen: set[str] = set()
    for row in given.requests:
        line = Line(f"{prefix}.requests/{row.partition}", row.offset, row.value or b"")
        event = decode_event(line.text)
        if isinstance(event, Refusal):
            summary.leave(Left(line, event.reason, event.detail))
            continue
        answer = given.answers.get(event.id)
        told = _answer_decoder.decode(answer) if answer else None
        if event.kind not in (Kind.REQUEST, Kind.DISCONNECT):
            summary.leave(Left(line, OTHER_KIND, event.kind, is_dead=False))
        elif event.id in seen:
            summary.leave(Left(line, REPEATED, event.id, is_dead=False))
        elif told is not None and bytes(told.error):
            summary.leave(Left(line, NO_ANSWER, is_dead=False))
        else:
            seen.add(event.id)
            if event.cluster in placements:
                event.time = placements[event.cluster].time_of(event.time, row.timestamp)
            yield _Placed(line, event, told)


def _lines(found: list[_Placed]) -> Iterator[Line]:
    """The same as lines of a capture."""
    latest: dict[str, int] = {}
    for line, event, answer in found:
        until = answer.response_time if answer is not None else event.time
        time = max(latest.get(line.file, 0), min(event.time, until))
        latest[line.file] = time
        document: dict[str, Any] = {
            "id": event.id,
            "broker": event.broker,
            "time": time,
            "connection": event.connection,
        }
        if event.kind is Kind.DISCONNECT:
            document["kind"] = event.kind
        else:
            document |= {
                "principal": event.principal,
                "host": event.host,
                "requestHeader": event.request_header,
                "request": event.request,
            }
        if answer is not None:
            document |= {"response": answer.response, "responseTime": max(0, until - time)}
        yield line._replace(text=_encoder.encode(document))
