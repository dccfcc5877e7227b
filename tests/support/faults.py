"""Faults planted in the machine's handlers, and the result of the comparison.

A plant changes the decision of an API: its response, its records, its messages to other machines,
or its delay. The handlers before it are the real ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import Exchange, Recording, read
from brokertwin.recordings.replay.report import Compared, compare_all
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision
from tests.support.sources import ROOT

CAPTURES = ROOT / "tests" / "captures"

Plant = Callable[[Api], Api]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Fault(NamedTuple):
    """A wrong behaviour.

    Attributes:
        capture: the recording that shows it.
        size: how many exchanges of it suffice.
        plants: the planted changes by API name.
        settings: the wrong settings of the broker.
    """

    about: str
    capture: str
    size: int
    plants: Mapping[str, Plant] = NOTHING
    settings: Mapping[str, Any] = NOTHING


def on_response(change: Callable[[Any], None]) -> Plant:
    def change_response(decision: Decision) -> Decision:
        if decision.response is not None:
            change(decision.response)
        return decision

    return decided(change_response)


def decided(change: Callable[[Decision], Decision]) -> Plant:
    def plant(api: Api) -> Api:
        complete, resume = api.complete, api.resume
        return msgspec.structs.replace(
            api,
            handle=lambda machine, request: change(api.handle(machine, request)),
            complete=complete and (lambda *waited: change(complete(*waited))),
            resume=resume and (lambda *responded: change(resume(*responded))),
        )

    return plant


def on_request(change: Callable[[Any], None]) -> Plant:
    def plant(api: Api) -> Api:
        def handle(machine: Any, request: Any) -> Decision:
            change(request.body)
            return api.handle(machine, request)

        return msgspec.structs.replace(api, handle=handle)

    return plant


@contextmanager
def planted(plants: Mapping[str, Plant]) -> Iterator[None]:
    real = dict(BUILT)
    keys = {api.name: key for key, api in BUILT.items()}
    try:
        for name, plant in plants.items():
            BUILT[keys[name]] = plant(real[keys[name]])
        yield
    finally:
        BUILT.update(real)


@cache
def recorded(capture: str) -> Recording:
    return read([CAPTURES / f"{capture}.jsonl.gz"])


def compared(capture: str, size: int | None = None, **wrong_settings: Any) -> list[Compared]:
    """What `replay --compare` says of the first exchanges of a capture, or of all."""
    return compared_history(recorded(capture).exchanges[:size], **wrong_settings)


def compared_history(exchanges: Sequence[Exchange], **wrong_settings: Any) -> list[Compared]:
    """Run `replay --compare` on exchanges of the captures' broker with some wrong settings.

    Decisions of the search for the order are reused, like in the command.
    """
    settings, _ = parse(properties.read(CAPTURES / "broker.properties"))
    settings = msgspec.structs.replace(settings, **wrong_settings)
    history = Recording(list(exchanges), [])
    planned = plan(history, "recorded", settings, is_compared=True)
    assert planned.schedule.responses is not None
    return compare_all(history.exchanges, planned.schedule, planned.schedule.responses, frozenset())
