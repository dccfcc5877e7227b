"""`brokertwin mcp`, asked by the SDK's own client over standard input and output."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import ROOT

LOG = str(ROOT / "examples" / "billing.kafka-request.log.gz")
CAPTURE = str(ROOT / "tests" / "captures" / "group_kp.jsonl.gz")


def asked(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of calls to a server of its own: documents, or texts of errors."""
    from mcp import Client, StdioServerParameters

    async def ask() -> list[Any]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "brokertwin", "mcp"])
        async with Client(server) as client:
            results: list[Any] = [[tool.name for tool in (await client.list_tools()).tools]]
            for name, given in calls:
                result = await client.call_tool(name, given)
                text = "".join(part.text for part in result.content if part.type == "text")
                results.append(text if result.is_error else json.loads(text))
            return results

    return asyncio.run(ask())


@pytest.mark.processes
def test_an_assistant_audits_explains_and_looks_at_the_state(tmp_path: Path) -> None:
    tools, audit, story, error, state, missing = asked(
        ("audit", {"logs": [LOG]}),
        ("explain", {"kind": "transaction", "name": "billing", "logs": [LOG]}),
        ("explain_error", {"name": "47"}),
        ("state", {"path": CAPTURE, "table": "topics"}),
        ("audit", {"logs": [str(tmp_path / "no.log")]}),
    )
    assert tools == ["audit", "explain", "explain_error", "offset_history", "state"]
    fenced = audit["findings"][0]
    assert fenced["kind"] == "producer-fenced"
    assert fenced["evidence"][0]["place"] == "billing.kafka-request.log:57"
    refused = [each for each in story["entries"] if each["refused"]]
    assert all(each["certainty"] in ("seen", "unknown") for each in refused)
    assert any("billing-pod-2" in part["because"] for each in refused for part in each["refused"])
    assert error["error"] == "INVALID_PRODUCER_EPOCH"
    assert "group_kp.5.events" in {row["topic"] for row in state["rows"]}
    assert "no.log" in missing


def test_the_history_of_an_offset_needs_a_directory() -> None:
    from brokertwin.cli.recordings.mcp import offset_history
    from brokertwin.errors import UserError

    with pytest.raises(UserError, match="is not a directory"):
        offset_history("kafka:9092", "billing")
