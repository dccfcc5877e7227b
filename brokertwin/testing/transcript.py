"""Last requests of a test's broker as text, shown for failed tests."""

from typing import Any

from brokertwin.protocol.errors import error_codes, error_name

LINES = 30


def transcript(documents: list[dict[str, Any]]) -> str:
    """Format the last requests, one on a line."""
    lines = []
    for document in documents[-LINES:]:
        header = document.get("requestHeader", {})
        parts = [] if document["broker"] is None else [f"broker {document['broker']}"]
        parts += [
            str(header.get("clientId")),
            f"{header.get('requestApiKeyName')} v{header.get('requestApiVersion')}",
        ]
        if document["fault"]:
            parts.append(f"[{document['fault']}]")
        errors = sorted({*error_codes(document["response"])} - {0})
        if errors:
            parts.append("-> " + ", ".join(error_name(code) for code in errors))
        elif document["response"] is None:
            parts.append("-> no response")
        lines.append("  ".join(parts))
    return "\n".join(lines)
