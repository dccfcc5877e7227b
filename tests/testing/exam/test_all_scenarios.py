"""Each scenario of the exam at a gateway: our broker responds as Kafka 4.3.1 did.

Waits cost no time, because the broker's clock skips them. Scenarios of several brokers and those
with other settings are played with real clocks (`test_examination.py`).
"""

from collections.abc import Iterator
from functools import partial

import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.testing.exam.model import ExamSubject, subjects
from brokertwin.testing.exam.player import Played
from brokertwin.testing.exam.site import Site, look
from brokertwin.testing.exam.verdicts import Outcome, judged
from tests.exam.record import SETTINGS
from tests.support.exams import PatientPlayer
from tests.support.gateways import running_gateway
from tests.support.stepped_clock import SkippingClock


@pytest.fixture(scope="module")
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture(scope="module")
def site(clock: SkippingClock) -> Iterator[Site]:
    engine_type = partial(LocalEngine, clock=clock)
    with running_gateway(SETTINGS, engine_type=engine_type) as gateway:
        settings = {name for each in subjects() for s in each.scenarios for name in s.settings}
        yield look(gateway.addresses[1], settings)


@pytest.mark.long
@pytest.mark.parametrize("subject", subjects(), ids=lambda each: each.name)
def test_all_scenarios_of_a_subject(subject: ExamSubject, site: Site, clock: SkippingClock) -> None:
    deviations = {}
    for number, scenario in enumerate(subject.scenarios):
        if site.missing(scenario) or site.other_settings(scenario):
            continue
        player = PatientPlayer(scenario, site, f"{subject.name}-{number}-", patience=5)
        player.clock = clock
        played = Played(player.observations, player.exchanges, player.run(), 0)
        result = judged(subject, scenario, played, ())
        if result.outcome is not Outcome.AGREES:
            deviations[scenario.name] = [str(each)[:300] for each in result.deviations]
    assert deviations == {}
