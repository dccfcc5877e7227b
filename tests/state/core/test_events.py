"""Limits of request bodies: no string is longer than Kafka's protocol allows."""

from typing import Any

import msgspec
import pytest

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.events import Reason, Refusal, decode_body

JOIN, LEAVE, SYNC, RENEW = (BUILT[key].decoder() for key in (11, 13, 14, 39))
MOST = 32_767


def read(decoder: msgspec.json.Decoder[Any], body: dict[str, Any]) -> Any:
    return decode_body(msgspec.Raw(msgspec.json.encode(body)), decoder)


@pytest.mark.parametrize("letter", ["g", "ü", "€", '"', "\\", "\n"])
@pytest.mark.parametrize("ahead", ["", "m" * 20_000])
def test_string_of_more_than_32767_bytes_is_rejected(letter: str, ahead: str) -> None:
    def found(group_id: str, member_id: str) -> Any:
        members = [{"memberId": ahead}, {"memberId": member_id}]
        return read(LEAVE, {"groupId": group_id, "members": members})

    longest = letter * (MOST // len(letter.encode()))
    longest = "x" * (MOST - len(longest.encode())) + longest
    assert found(longest, longest).group_id == longest
    detail = f"a string of {MOST + 1} bytes; at most {MOST} are accepted, as by Kafka"
    for names in (("x" + longest, "m"), ("g", longest + "x")):
        assert found(*names) == Refusal(Reason.TOO_LARGE, detail)


def test_bytes_may_be_longer() -> None:
    data = "AAAA" * MOST
    group = {"groupId": "g", "memberId": "m", "protocolType": "consumer"}
    join = {"sessionTimeoutMs": 1, "protocols": [{"name": "range", "metadata": data}]}
    sync = {"generationId": 1, "assignments": [{"memberId": "m", "assignment": data}]}
    assert read(JOIN, group | join).protocols[0].metadata == data
    assert read(SYNC, group | sync).assignments[0].assignment == data
    assert read(RENEW, {"hmac": data, "renewPeriodMs": 1}).hmac == data
