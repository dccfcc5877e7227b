"""Compare the results of admin clients at a real broker and a gateway."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Any, NamedTuple

from tests.support.goldens import IS_LIVE, Track
from tests.support.patience import PATIENCE_S
from tests.support.tool_sides import AGAIN_S, ASIDE, LOOKED_FOR_S

LOOKS = re.compile(r"(describe|list|find|api|get|cluster|wait)(_|[A-Z])")
OWN = re.compile(
    r"(?i)_?(host|port|cluster_?id|topic_?id|controller|.*timestamp|age_ms|.*start_?time_?ms"
    r"|(total|usable)_?bytes|.*offset_?lag|last_?caught_?up.*|high_?watermark|log_?end_?offset"
    r"|.*directory_?id|finalized(_?features)?_?epoch|log_?dir|partition_?size|size|producer_?id"
    r"|(Add|Remove)RaftVoter)"
)
"""Fields that differ between brokers, and requests about voters, which a gateway does not have."""

REPLAYED_FOR_S = 5
AT = re.compile(r" at 0x[0-9a-f]+")
LOG_DIR = re.compile(r"^/.*/data$")


class Call(NamedTuple):
    method: str
    about: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def call(method: str, about: str, *arguments: Any, **named: Any) -> Call:
    return Call(method, about, arguments, named)


Act = Callable[[str], None]
"""Actions of other clients in between, at a bootstrap address."""


def plain(reported: Any) -> Any:
    """Normalise a result: drop broker-specific values and sort unordered lists."""
    if isinstance(reported, Future):
        return plain(reported.exception(PATIENCE_S) or reported.result(PATIENCE_S))
    if isinstance(reported, BaseException):
        return [type(reported).__name__, *map(plain, reported.args)]
    if isinstance(reported, Enum):
        return reported.name
    if isinstance(reported, type):
        return reported.__name__
    if hasattr(reported, "_asdict"):
        return plain(reported._asdict())
    if isinstance(reported, dict):
        named = [(_text(plain(key)), str(key), value) for key, value in reported.items()]
        return {
            name: plain(value)
            for name, as_reported, value in named
            if not OWN.fullmatch(name) and not OWN.fullmatch(as_reported)
        }
    if isinstance(reported, list | tuple | set | frozenset):
        return sorted(map(plain, reported), key=_text)
    if isinstance(reported, bool | int | float | None):
        return reported
    if hasattr(reported, "__dict__") and vars(reported):
        return plain(vars(reported))
    text = AT.sub("", LOG_DIR.sub("LOG DIR", str(reported)))
    for pattern, word in ASIDE:
        text = re.sub(pattern, word, text)
    return text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _copied(argument: Any) -> Any:
    """Copy the arguments: kafka-python removes the entries it has processed from a dict."""
    if isinstance(argument, dict):
        return {key: _copied(value) for key, value in argument.items()}
    return list(map(_copied, argument)) if isinstance(argument, list) else argument


def response_to(admin: Any, step: Call) -> Any:
    try:
        arguments = map(_copied, step.arguments)
        return plain(getattr(admin, step.method)(*arguments, **step.named))
    except Exception as error:  # noqa: BLE001 (the exception is compared)
        return plain(error)


class Found(NamedTuple):
    """Results of both brokers."""

    step: Call
    real: Any
    ours: Any


def call_all(
    admins: Sequence[Any], bootstraps: Sequence[str], steps: Sequence[Call | Act]
) -> Iterator[Found]:
    real, ours = admins
    return _call(lambda _, step: response_to(real, step), ours, bootstraps, steps)


def call_ours(
    real: Any, ours: Any, bootstraps: Sequence[str], steps: Sequence[Call | Act], track: Track
) -> Iterator[Found]:
    """Make the calls on our side; the real one's responses are recorded on a track."""
    requests = [plain(each) for each in steps]  # kafka-python alters some when it is called

    def recorded(number: int, step: Call) -> Any:
        return track.response([number, requests[number]], lambda: response_to(real, step))

    return _call(recorded, ours, bootstraps, steps, LOOKED_FOR_S if IS_LIVE else REPLAYED_FOR_S)


def _call(
    real: Callable[[int, Call], Any],
    ours: Any,
    bootstraps: Sequence[str],
    steps: Sequence[Call | Act],
    looked_for_s: float = LOOKED_FOR_S,
) -> Iterator[Found]:
    """Looking is tried again, because a broker learns of changes late."""
    with ThreadPoolExecutor() as pool:
        for number, step in enumerate(steps):
            if not isinstance(step, Call):
                list(pool.map(step, bootstraps))
                continue
            deadline = time.monotonic() + looked_for_s
            while True:
                expected = pool.submit(real, number, step)
                response = response_to(ours, step)
                is_over = not LOOKS.match(step.method) or time.monotonic() > deadline
                if expected.result() == response or is_over:
                    break
                time.sleep(AGAIN_S)
            yield Found(step, expected.result(), response)


def differing(found: Iterable[Found]) -> list[str]:
    """Results that only one of both returns."""
    return [
        f"{step.method}, {step.about}\n  kafka {real}\n  ours  {ours}"
        for step, real, ours in found
        if ours != real
    ]
