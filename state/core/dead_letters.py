"""Dead letters, and error responses, for rejected documents.

Both have a limited size, because a row that the topic rejects would end the job.
"""

import base64
from typing import Any

import msgspec

from brokertwin.state.core import outputs
from brokertwin.state.core.events import ID_CHARS_MAX, Event, Refusal, document_of, identity_of
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import CellSettings

DETAIL_CHARS_MAX = 1000
"""Length limit of a rejection's detail."""

_json = msgspec.json.Encoder()


def refused_event(
    settings: CellSettings, event: Event | bytes, position: Position, refusal: Refusal
) -> list[Output]:
    """Return a dead letter, and an error if the id is readable."""
    document = document_of(event)
    rows = [dead_letter(settings, document, position, refusal)]
    identity = identity_of(document)
    is_legible = 0 < len(identity.id) <= ID_CHARS_MAX
    if is_legible and 0 <= identity.reply_to < settings.responses_partitions:
        document_of_id = {
            "id": identity.id,
            "cluster": identity.cluster,
            "connection": identity.connection,
            "requestHeader": identity.request_header,
        }
        value = error_document(settings, document_of_id, refusal)
        rows.append(Output(outputs.RESPONSES, identity.reply_to, None, value, identity.id))
    return rows


def error_document(settings: CellSettings, document: dict[str, Any], refusal: Refusal) -> bytes:
    """An error in place of a response; if it is too large, with the id alone."""
    error = {"reason": refusal.reason, "detail": _clipped(refusal.detail)}
    encoded = _json.encode({**document, "error": error})
    if len(encoded) > settings.output_bytes_max:
        encoded = _json.encode({"id": document["id"], "cluster": settings.cluster, "error": error})
    return encoded


def _clipped(detail: str) -> str:
    """Shorten a detail, which may contain parts of the document."""
    return detail if len(detail) <= DETAIL_CHARS_MAX else detail[:DETAIL_CHARS_MAX] + "..."


def dead_letter(
    settings: CellSettings, event: Event | bytes, position: Position, refusal: Refusal
) -> Output:
    """Return a dead letter: position, reason, at most 64 KiB of the input."""
    document = document_of(event)
    kept = document[: outputs.DEAD_LETTER_INPUT_BYTES_MAX]
    value: dict[str, Any] = {
        "cell": settings.name,
        "partition": position.partition,
        "offset": position.offset,
        **({"packIndex": position.pack_index} if position.pack_index else {}),
        "reason": refusal.reason,
        "detail": _clipped(refusal.detail),
        "inputBytes": len(document),
    }
    try:
        value["input"] = kept.decode("utf-8")
    except UnicodeDecodeError:
        value["inputBase64"] = base64.b64encode(kept).decode("ascii")
    row_id = f"{settings.name}/{position.place}/dead"
    return Output(outputs.DEAD_LETTERS, None, None, _json.encode(value), row_id)
