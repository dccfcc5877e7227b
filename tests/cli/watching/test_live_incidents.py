"""Findings of one happening are one entry of the page and of `top`."""

import random

import msgspec
import pytest

from brokertwin.cli.watching.live_incidents import APART_MS, incidents
from brokertwin.cli.watching.status import LiveFinding, LiveIncident
from brokertwin.streaming.live.findings import rows_of
from tests.score.goldens import golden
from tests.score.scoring import live


def finding(begin: float, **fields: object) -> LiveFinding:
    document = {
        "id": f"{begin} {sorted(fields.items())}",
        "cluster": "shop",
        "severity": "info",
        "kind": "refused",
        "subject": "FETCH INVALID_REQUEST",
        "what": f"At {begin}.",
        "cause": "",
        "clients": ["a"],
        "error": "INVALID_REQUEST",
        "from": begin,
        "to": begin,
        "count": 1,
    }
    return msgspec.convert({**document, **fields}, LiveFinding)


def test_seven_refusals_of_a_client_are_one_incident_with_the_first_and_the_last_time() -> None:
    (found,) = incidents(finding(1_000.0 * n) for n in range(7))
    assert (found.count, found.begin, found.to, found.what) == (7, 0.0, 6_000.0, "At 6000.0.")


@pytest.mark.parametrize(
    "other",
    [
        {"begin": APART_MS + 1},
        {"begin": 1, "cluster": "bank"},
        {"begin": 1, "clients": ["b"]},
        {"begin": 1, "kind": "offset-back"},
        {"begin": 1, "error": "UNKNOWN_SERVER_ERROR"},
        {"begin": 1, "subject": "PRODUCE INVALID_REQUEST"},
    ],
    ids=lambda each: next(reversed(each)),
)
def test_findings_that_differ_are_incidents_of_their_own(other: dict[str, object]) -> None:
    assert len(incidents([finding(0), finding(**other)])) == 2


def test_a_finding_about_each_of_many_partitions_is_one_incident() -> None:
    (found,) = incidents(finding(n, subject=f"partition orders-{n}") for n in range(4))
    assert (found.subject, found.count) == ("partition orders-0 and 3 more", 4)


def _moves(**fields: object) -> list[LiveFinding]:
    moved = {"subject": "partition orders-0", "clients": [], "error": None}
    return [
        finding(0, kind="leader-changed", **moved),
        finding(1, kind="isr-shrunk", **moved),
        finding(2, **fields),
    ]


def test_what_brokers_refuse_while_leaders_change_is_told_with_the_change() -> None:
    fields = {"error": "NOT_LEADER_OR_FOLLOWER", "severity": "warning"}
    (found,) = incidents(_moves(**fields))
    assert (found.kind, found.severity, found.clients) == ("leader-changed", "warning", ["a"])
    assert found.also == ["isr-shrunk (1)", "refused NOT_LEADER_OR_FOLLOWER (1)"]


@pytest.mark.parametrize("fields", [{"error": "INVALID_REQUEST"}, {"kind": "offset-back"}])
def test_other_errors_do_not_follow_from_a_change_of_leaders(fields: dict[str, object]) -> None:
    assert len(incidents(_moves(**fields))) == 2


def test_a_killed_broker_is_one_incident_of_a_real_cluster() -> None:
    stated = live(golden("broker_killed").lines, None, random.Random(1))
    rows = rows_of("shop", ([each] for each in stated))
    findings = [msgspec.json.decode(row.value, type=LiveFinding) for row in rows]
    found = incidents(findings)
    assert sum(each.kind in ("leader-changed", "isr-shrunk") for each in findings) > 25
    (moved,) = (each for each in found if each.kind == "leader-changed")
    assert moved.also[0].startswith("isr-shrunk (")
    assert [each.kind for each in found if each.kind == "isr-shrunk"] == []
    assert msgspec.json.decode(msgspec.json.encode(moved), type=LiveIncident) == moved
    assert len(found) < 10
