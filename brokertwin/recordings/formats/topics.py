"""Recorded exchanges in topics: of `capture --topic`, and of a job.

A job's request and response become a line of a capture. A job handles requests in offset order and
its clock never goes back. A request's time here is therefore not before that of the previous one in
its partition, and not after its response.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import TopicRow, read_all, without_repeats
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.recordings.formats.documents import Document, UnpairedDocuments
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.pipeline import FileReading, Source, read_lines
from brokertwin.recordings.formats.summary import Summary
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Event, Kind, Refusal, decode_event

Observe = Callable[[int], None]

OTHER_KIND = "an event of the job that is no client's request"
REPEATED = "an id that came before: of a repeat the first counts"
DEAD_LETTER = "the job made a dead letter of it"


class _ResponseRow(msgspec.Struct, rename="camel"):
    """A row of `responses`; a dead letter has `error` instead."""

    response_time: int = 0
    response: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Placed(NamedTuple):
    """An exchange with its offset as line number, and the sent request."""

    line: SourceLine
    event: Event
    response: _ResponseRow | None


_response_decoder = msgspec.json.Decoder(_ResponseRow)
_encoder = msgspec.json.Encoder()


def of_topic(
    client: ClientProperties, topic: str, reading: FileReading, observe: Observe = lambda _: None
) -> Source:
    """Yield the documents written by `capture --topic`.

    Args:
        client: the connection to Kafka.
        topic: its name.
        reading: how to read logs.
        observe: called with the number of rows left.
    """

    def documents(summary: Summary) -> Iterator[Document]:
        lines = (
            SourceLine(f"{topic}/{row.partition}", row.offset, row.value)
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
    """Yield a job's requests with responses; pending ones have none.

    Args:
        client: the connection to Kafka.
        prefix: the job's topic prefix.
        cluster: one of its clusters; None if it has only one.
        observe: called with the number of rows left.
    """

    def documents(summary: Summary) -> Iterator[Document]:
        placements = placement.read(client, prefix)
        requests = list(read_all(client, full_name(prefix, REQUESTS), None, observe))
        # They are read last, so each has its request.
        responses = read_all(client, full_name(prefix, outputs.RESPONSES), None, observe)
        responses_by_id = {row.id: row.value for row in without_repeats(responses)}
        found = list(_placed(requests, responses_by_id, placements, prefix, summary))
        clusters = sorted({each.event.cluster for each in found})
        cluster_name = cluster or (clusters[0] if len(clusters) == 1 else None)
        if found and cluster_name not in clusters:
            raise UserError(
                f"The job has requests of several clusters: {', '.join(clusters)}.",
                "Select one with --cluster.",
            )
        mine = [each for each in found if each.event.cluster == cluster_name]
        return read_lines(_lines(mine), prefix, FileReading(), summary)

    return documents


def _placed(
    requests: list[TopicRow],
    responses_by_id: Mapping[str, bytes | None],
    placements: Mapping[str, Placement],
    prefix: str,
    summary: Summary,
) -> Iterator[_Placed]:
    """Yield client requests, each id once, at the job's time; counts the rest."""
    seen: set[str] = set()
    for row in sorted(requests, key=lambda row: (row.partition, row.offset)):
        source = f"{prefix}.requests/{row.partition}"
        line = SourceLine(source, row.offset, row.value or b"", row.pack_index)
        event = decode_event(line.text)
        if isinstance(event, Refusal):
            summary.leave(UnpairedDocuments(line, event.reason, event.detail))
            continue
        response = responses_by_id.get(event.id)
        row_of_response = _response_decoder.decode(response) if response else None
        if event.kind not in (Kind.REQUEST, Kind.DISCONNECT):
            summary.leave(UnpairedDocuments(line, OTHER_KIND, event.kind, is_dead=False))
        elif event.id in seen:
            summary.leave(UnpairedDocuments(line, REPEATED, event.id, is_dead=False))
        elif row_of_response is not None and bytes(row_of_response.error):
            summary.leave(UnpairedDocuments(line, DEAD_LETTER, is_dead=False))
        else:
            seen.add(event.id)
            if event.cluster in placements:
                event.time = placements[event.cluster].time_of(event.time, row.timestamp)
            yield _Placed(line, event, row_of_response)


def _lines(placed: list[_Placed]) -> Iterator[SourceLine]:
    """Encode the exchanges as lines of a capture."""
    latest: dict[str, int] = {}
    for line, event, response in placed:
        until = response.response_time if response is not None else event.time
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
        if response is not None:
            document |= {"response": response.response, "responseTime": max(0, until - time)}
        yield line._replace(text=_encoder.encode(document))
