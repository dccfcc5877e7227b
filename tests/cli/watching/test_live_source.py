"""A live audit counts its findings once, by a bounded number of label values."""

import json
import threading

from brokertwin.cli.watching.live_incidents import APART_MS
from brokertwin.cli.watching.live_source import LABEL_VALUES_MAX, NEWEST, OTHER, LiveSource
from brokertwin.cli.watching.status import FindingCount, OfLive, Phase
from brokertwin.streaming.live.runner import LiveProgress


def document(number: int, client: str = "a", cluster: str = "shop", **others: object) -> bytes:
    """A row of the topic of findings."""
    fields = {
        "id": f"{cluster} {number}",
        "cluster": cluster,
        "severity": "error",
        "kind": "offset-back",
        "subject": "group billing",
        "what": "The offset moved back.",
        "cause": "",
        "clients": [client] if client else [],
        "error": None,
        "count": 1,
        "from": APART_MS * 2 * number,
        "to": APART_MS * 2 * number,
        "evidence": [],
        "withdrawn": False,
    }
    return json.dumps({**fields, **others}).encode()


def live(source: LiveSource) -> OfLive:
    actual = source.status().live
    assert actual is not None
    return actual


def test_a_completed_finding_is_counted_once_and_shown_with_its_cause() -> None:
    source = LiveSource("audited")
    source.found([document(1), document(2)])
    source.found([document(1, cause="client b reset it")])
    assert live(source).findings == [FindingCount("offset-back", "shop", "a", 2)]
    assert [each.cause for each in live(source).incidents] == ["", "client b reset it"]


def test_a_withdrawn_finding_is_no_longer_shown_and_not_counted_if_new() -> None:
    source = LiveSource("audited")
    source.found([document(1), document(2, withdrawn=True)])
    source.found([document(1, withdrawn=True)])
    assert [each.count for each in live(source).findings] == [1]
    assert live(source).incidents == []


def test_findings_of_a_former_start_are_shown_but_not_counted() -> None:
    source = LiveSource("audited")
    source.earlier([document(number) for number in range(NEWEST + 5)])
    assert live(source).findings == []
    numbers = [each.to / APART_MS / 2 for each in live(source).incidents]
    assert numbers == [NEWEST + 4 - n for n in range(NEWEST)]


def test_clients_and_clusters_beyond_the_limit_are_counted_together() -> None:
    source = LiveSource("audited")
    many = LABEL_VALUES_MAX + 5
    source.found([document(n, f"client-{n}") for n in range(many)])
    source.found([document(n, "client-0", f"cluster-{n}") for n in range(many)])
    counts = live(source).findings
    assert len({each.client for each in counts}) == LABEL_VALUES_MAX + 1
    assert len({each.cluster for each in counts}) == LABEL_VALUES_MAX + 1
    of_others = [each.count for each in counts if OTHER in (each.client, each.cluster)]
    assert of_others == [5, 6]
    assert sum(each.count for each in counts) == 2 * many


def test_a_micro_batch_is_in_the_document() -> None:
    ending = threading.Event()
    source = LiveSource("audited", ending)
    assert (source.status().phase, live(source).batch) == (Phase.STARTING, -1)
    source.pulse.beat()
    source.observe(LiveProgress(3, 100, 0.5, 17, 32, 9000, {"exchanges": 99}))
    found = live(source)
    assert (source.status().phase, found.batch, found.batch_rows) == (Phase.RUNNING, 3, 100)
    assert (found.lag, found.state_rows, found.counts) == (17, 32, {"exchanges": 99})
    assert [(each.rate, each.lag) for each in source.status().points] == [(200.0, 17)]
    ending.set()
    assert source.status().phase is Phase.STOPPING
