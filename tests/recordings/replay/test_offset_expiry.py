"""A real 4.3.1 broker forgets offsets after a minute: every response is decided the same.

Recorded by hand with a check each second: groups of every base, a retention of a commit's own, a
group that is deleted, and offsets of an open transaction (`state/groups/offset_expiry.py`).
"""

from brokertwin.kafka_io import properties
from brokertwin.recordings.replay import local, report
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import Exchange, read
from brokertwin.state.configs.broker_config import parse
from tests.support.sources import ROOT

RECORDING = ROOT / "tests" / "requestlogs" / "offset_expiry" / "offset_expiry.jsonl.gz"
BEFORE = {
    "simple": "kept-0",
    "retention": "kept-0 left-0",
    "classic": "kept-0 left-0",
    "classic-left": "kept-0",
    "connect": "left-0",
    "modern": "kept-0 left-0",
    "modern-left": "kept-0",
    "deleted": "kept-0",
    "transactional": "kept-0",
}
"""Commits in the first second; members subscribe to `kept`."""

STAYS = {"classic": "kept-0", "connect": "left-0", "modern": "kept-0"}
"""Remaining offsets of remaining groups after 84 s."""


def differing(minutes: int) -> int:
    """Return the number of differing responses with a retention of `minutes`."""
    given = properties.read(RECORDING.with_name(f"{RECORDING.name}.properties"))
    settings, _ = parse({**given, "offsets.retention.minutes": str(minutes)})
    recording = read([RECORDING])
    planned = plan(recording, "recorded", settings, is_compared=True)
    responses = local.run(planned.documents, planned.settings)
    found = report.compare_all(recording.exchanges, planned.schedule, responses, frozenset())
    return len(found) - report.agreeing(found)


def places(exchange: Exchange) -> tuple[str, str]:
    """Return a group and its committed partitions in an OffsetFetch response."""
    (group,) = exchange.response["groups"]
    found = [
        f"{topic['name']}-{each['partitionIndex']}"
        for topic in group["topics"]
        for each in topic["partitions"]
    ]
    return group["groupId"], " ".join(sorted(found))


def test_every_response_equals_the_real_brokers() -> None:
    assert differing(minutes=1) == 0
    assert differing(minutes=2) > 10, "the recording shows when offsets go"


def test_the_recording_has_kept_and_expired_offsets() -> None:
    reported = read([RECORDING]).exchanges
    fetched = [places(each) for each in reported if each.api == "OFFSET_FETCH"]
    assert dict(fetched[: len(BEFORE)]) == BEFORE
    assert {group: kept for group, kept in fetched[-len(BEFORE) :] if kept} == STAYS
    *_, last = (each.response for each in reported if each.api == "LIST_GROUPS")
    assert {each["groupId"] for each in last["groups"]} == set(STAYS)
