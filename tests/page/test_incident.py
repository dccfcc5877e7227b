"""The content of an incident page: what the recording shows, within its bounds."""

import base64
import gzip
import json
import re

import pytest

from brokertwin.page import incident
from brokertwin.page.assembly import MODULES, asset, incident_page
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.history.memberships import Membership
from brokertwin.recordings.history.sessions import CACHES
from tests.support.audits import whole
from tests.support.requestlogs import REQUEST_LOGS

GROUP = "group_kp"


def document(name: str = GROUP) -> dict[str, object]:
    audited = whole(name)
    made = incident.document(audited.history, audited.findings, [name])
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


def lane(page: dict, kind: str, name: str = "") -> dict:  # type: ignore[type-arg]
    lanes = [each for each in page["lanes"] if each["kind"] == kind and name in each["name"]]
    return lanes[0]  # type: ignore[no-any-return]


def state_at(lane: dict, time: int) -> dict:  # type: ignore[type-arg]
    state: dict[str, object] = {}
    for at, _, change in lane["samples"]:
        if at <= time:
            state |= change
    return {name: value for name, value in state.items() if value is not None}


def test_each_exchange_has_a_value_in_each_column() -> None:
    page = document()
    columns = page["exchanges"].values()
    assert {len(column) for column in columns} == {len(whole(GROUP).history.recording.exchanges)}


def test_a_log_without_clients_has_a_page() -> None:
    log = REQUEST_LOGS / "leader_kill" / "controller-100.kafka-request.log.gz"
    audited = read([log], FileReading())
    assert incident.document(audited.history, findings(audited.history), [log.name])["span"] == 1


def test_a_group_shows_its_generation_and_members_at_a_moment() -> None:
    group = lane(document(), "group")
    span = next(each for each in group["spans"] if "generation 3, 1 member" in each[2])
    state = state_at(group, span[0])
    assert (state["generation"], state["members"]) == (3, 1)
    assert state_at(group, -1) == {}


@pytest.mark.parametrize(
    ("name", "group", "label", "began"),
    [
        ("raw_group_errors", "raw_group_errors.17.group", "generation 5, 0 members", 9_708),
        ("static_members_classic", "group", "generation 1, 2 members", 20_827),
        ("consumer_protocol", "group", "epoch 4, 2 members", 8_759),
        ("share_sessions", "si-first", "epoch 2, 1 of 1 silent", 4_057),
    ],
)
def test_a_member_is_gone_from_the_moment_it_expires(
    name: str, group: str, label: str, began: int
) -> None:
    spans = lane(document(name), "group", group)["spans"]
    assert (began, label) in [(span[0], span[2]) for span in spans]


def test_a_member_that_goes_on_later_has_not_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coordinator was gone for longer than its session."""
    monkeypatch.setattr(Membership, "alive_at", lambda self, time, known: {})
    group = lane(document("group_kp"), "group")
    assert "generation 3, 1 member" in [span[2] for span in group["spans"]]


def test_the_state_at_the_end_has_the_committed_offsets_of_the_recording() -> None:
    page = document()
    state = state_at(lane(page, "group"), page["span"] + 1)
    entity = whole(GROUP).history.recording.observed(incident.KINDS["group"])
    (group,) = entity.entities.values()
    newest = {f"offset {each.place}": each.offset for each in group.offsets.offsets.values()}
    assert newest.items() <= state.items()


def test_the_lane_of_a_broker_has_its_open_fetch_sessions() -> None:
    page = document("fetch_session_assign")
    (cache,) = whole("fetch_session_assign").history.recording.observed(CACHES).entities.values()
    open_ones = {n: each for n, each in cache.sessions.items() if each.used and not each.closed}
    state = state_at(lane(page, "session"), page["span"] + 1)
    assert {name: str(value).split(",")[0] for name, value in state.items()} == {
        f"session {number}": f"epoch {each.epoch}" for number, each in open_ones.items()
    }
    assert open_ones


@pytest.mark.parametrize("name", [GROUP, "leader_kill"])
def test_the_evidence_of_a_finding_is_marked_in_the_lane_of_its_subject(name: str) -> None:
    page = document(name)
    worst = page["findings"][0]
    marks = {tuple(mark[:2]) for mark in lane(page, *worst["subject"].split())["marks"]}
    assert {(row["t"], row["at"]) for row in worst["evidence"]} <= marks
    assert page["title"].startswith(f"{worst['kind']}: {worst['subject']}")


def test_changes_of_a_busy_lane_are_merged_and_end_in_the_same_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole_lane = lane(document(), "group")
    monkeypatch.setattr(incident, "SAMPLES_MAX", 20)
    page = document()
    merged = lane(page, "group")
    assert len(merged["samples"]) <= 21
    end = page["span"] + 1
    assert state_at(merged, end) == state_at(whole_lane, end)


def test_bodies_are_left_out_beyond_the_limit_those_of_findings_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incident, "BODY_BYTES", 20_000)
    page = document()
    (finding,) = page["findings"]
    assert 0 < len(page["bodies"]) < 200
    assert page["left"]["bodies"] == len(page["exchanges"]["time"]) - len(page["bodies"])
    assert str(finding["evidence"][0]["at"]) in page["bodies"]


def test_lanes_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident, "LANES_MAX", 1)
    page = document()
    assert page["left"]["lanes"] == 5
    assert len({each["kind"] for each in page["lanes"]}) == len(page["lanes"])


def test_the_page_is_one_file_that_names_no_other() -> None:
    page = document()
    html = incident_page(page | {"title": "</title><script>alert(1)</script>"})
    assert "<script>alert" not in html
    assert re.findall(r"\b(?:src|href)\s*=", html) == []
    assert "default-src 'none'" in html
    (packed,) = re.findall(r'id="document">([^<]*)<', html)
    assert json.loads(gzip.decompress(base64.b64decode(packed)))["lanes"] == page["lanes"]


def test_modules_of_the_page_define_each_name_once() -> None:
    found = re.compile(r"^(?:export )?(?:async )?(?:function|const) (\w+)", re.M)
    names = [name for module in MODULES for name in found.findall(asset(module))]
    assert len(names) == len(set(names))
