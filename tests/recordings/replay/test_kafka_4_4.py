"""A request log of Kafka 4.4.0: read, audited, explained and replayed by the rules of 4.4."""

from collections import Counter

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import Severity
from brokertwin.recordings.audit.reading import read as read_history
from brokertwin.recordings.explain.groups import GroupTimeline
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay import local, report
from brokertwin.recordings.replay.comparison import CompareVerdict
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read
from brokertwin.recordings.replay.settings_beside import settings_beside
from brokertwin.state.configs.broker_config import parse
from brokertwin.state.core.settings import RELEASE
from tests.support.requestlogs import REQUEST_LOGS

LOG = REQUEST_LOGS / "kafka_4_4" / "kafka-request.log.gz"
EVENTS = LOG.with_name("events.jsonl.gz")
ADDED = {("API_VERSIONS", 5), ("DELETE_GROUPS", 3), ("TXN_OFFSET_COMMIT", 6)} | {
    ("STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE", 0),
    ("UNREGISTER_CONTROLLER", 0),
}
"""Versions that Kafka 4.3 does not have."""

DIFFERING = {"FETCH": 2, "METADATA": 2, "STREAMS_GROUP_HEARTBEAT": 5}
"""The broker had other work: two reads and the start of a delay took up to 0.5 s. The leader epochs
of older topics are not in the recording."""


def test_the_log_is_read_and_audited() -> None:
    history, broken, holes = read_history([LOG], FileReading())
    assert not broken and not holes
    assert Severity.ERROR not in {each.severity for each in findings(history)}


def test_a_transaction_and_its_group_are_explained() -> None:
    story = GroupTimeline(read([LOG]).exchanges, "printing").story()
    notes = [note for entry in story for note in entry.notes]
    assert any("pending until the transaction of producer printing-1 commits" in n for n in notes)


def test_replay_agrees_by_the_rules_of_4_4() -> None:
    recording = read([EVENTS]).of_clients()
    settings, _ = parse(settings_beside([EVENTS]))
    planned = plan(recording, "recorded", settings, is_compared=True)
    responses = local.run(planned.documents, planned.settings)
    compared = report.compare_all(recording.exchanges, planned.schedule, responses, frozenset())
    differing = [
        each.exchange for each in compared if each.outcome.verdict is CompareVerdict.DIFFER
    ]
    assert Counter(each.api for each in differing) == DIFFERING
    seen = {(each.api, each.header.request_api_version) for each in recording.exchanges}
    assert seen >= ADDED
    left_out = [reason for reason in recording.left_out if "dead letters" in reason]
    assert len(left_out) == 1, "the coordinator's markers"


@pytest.mark.parametrize(("given", "expected"), [({}, "4.4"), ({RELEASE: "4.3"}, "4.3")])
def test_a_log_shows_the_release_unless_the_settings_name_it(
    given: dict[str, str], expected: str
) -> None:
    whole = read([LOG])
    first = [each.api == "API_VERSIONS" for each in whole.exchanges].index(True)
    recording = whole._replace(exchanges=whole.exchanges[: first + 1], own=())
    planned = plan(recording, "recorded", parse(given)[0], is_compared=False)
    assert planned.settings.broker_settings.brokertwin_kafka_version == expected
