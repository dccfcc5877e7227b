"""What becomes of a refused document: a dead letter, and an answer that says why there is none.

Both are bounded, whatever the document says: a row that a topic does not take would end the job.
"""

import base64
from typing import Any

import msgspec

from brokertwin.state.core import outputs
from brokertwin.state.core.events import ID_CHARS_MAX, Refusal, identity_of
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import CellSettings

DETAIL_CHARS_MAX = 1000
"""How much of a refusal's detail is written."""

_json = msgspec.json.Encoder()


def refused_event(
    settings: CellSettings, document: bytes, position: Position, refusal: Refusal
) -> list[Output]:
    """The rows of a refused document: a dead letter, and an answer where its id is legible."""
    rows = [dead_letter(settings, document, position, refusal)]
    identity = identity_of(document)
    is_legible = 0 < len(identity.id) <= ID_CHARS_MAX
    if is_legible and 0 <= identity.reply_to < settings.responses_partitions:
        answer = {
            "id": identity.id,
            "cluster": identity.cluster,
            "connection": identity.connection,
            "requestHeader": identity.request_header,
        }
        value = error_document(settings, answer, refusal)
        rows.append(Output(outputs.RESPONSES, identity.reply_to, None, value, identity.id))
    return rows


def error_document(settings: CellSettings, document: dict[str, Any], refusal: Refusal) -> bytes:
    """An answer that says why there is none; where it would be too large, with its id alone."""
    said = {"reason": refusal.reason, "detail": _clipped(refusal.detail)}
    encoded = _json.encode({**document, "error": said})
    if len(encoded) > settings.output_bytes_max:
        encoded = _json.encode({"id": document["id"], "cluster": settings.cluster, "error": said})
    return encoded


def _clipped(detail: str) -> str:
    """A detail may repeat what the document said."""
    return detail if len(detail) <= DETAIL_CHARS_MAX else detail[:DETAIL_CHARS_MAX] + "..."


def dead_letter(
    settings: CellSettings, document: bytes, position: Position, refusal: Refusal
) -> Output:
    """The dead letter of a document: where it lay, why, and at most 64 KiB of it."""
    kept = document[: outputs.DEAD_LETTER_INPUT_BYTES_MAX]
    value: dict[str, Any] = {
        "cell": settings.name,
        "partition": position.partition,
        "offset": position.offset,
        "reason": refusal.reason,
        "detail": _clipped(refusal.detail),
        "inputBytes": len(document),
    }
    try:
        value["input"] = kept.decode("utf-8")
    except UnicodeDecodeError:
        value["inputBase64"] = base64.b64encode(kept).decode("ascii")
    row_id = f"{settings.name}/{position.partition}/{position.offset}/dead"
    return Output(outputs.DEAD_LETTERS, None, None, _json.encode(value), row_id)
