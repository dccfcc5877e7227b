"""Lines of the group coordinator in server.log, of several releases and layouts."""

import json
from pathlib import Path

import pytest

from brokertwin.cli.recordings.explain import Where, _groups
from brokertwin.errors import UserError
from brokertwin.recordings.formats.coordinator_lines import Logged, logged

LOGGER = " (kafka.coordinator.group.GroupCoordinator)"
REJOIN = "need to re-join with the given member-id"
ID = "reader-a-e19b4bca-d70d-4f44-bcca-c304d5eb2c18"
TEXTS = {
    "Kafka 1": f"[GroupCoordinator 0]: Preparing to rebalance group my.group with old generation 3"
    f" (__consumer_offsets-12){LOGGER}",
    "Kafka 2 and 3": "[GroupCoordinator id=0] Member m-1 in group my.group has failed, removing it"
    f" from the group{LOGGER}",
    "at the end of a sentence": "[GroupCoordinator id=0 topic=__consumer_offsets partition=2]"
    f" Assignment received for group my.group. Done.{LOGGER}",
    "KIP-848": "[GroupCoordinator id=0 topic=__consumer_offsets partition=2] [GroupId my.group]"
    " Member x joins the consumer group using the consumer protocol."
    " (org.apache.kafka.coordinator.group.GroupMetadataManager)",
    "no logger": "[GroupMetadataManager brokerId=0] Group my.group with generation 5 is now empty",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_line_names_its_group(kind: str) -> None:
    found = logged("server.log:1", f"[2026-06-03 11:49:05,758] INFO {TEXTS[kind]}".encode(), 7)
    assert found is not None
    assert found.is_of("my.group")
    assert not found.is_of("my")
    assert "my.group" in found.groups
    assert (found.broker, found.time) == (0, 7)
    assert "(kafka" not in found.text


def test_lines_without_a_group_are_left_out() -> None:
    text = b"[GroupCoordinator id=1] Scheduling loading of metadata from __consumer_offsets-7"
    assert logged("server.log:1", text, 7) is None


@pytest.mark.parametrize(
    ("reason", "general"),
    [
        (
            f"removing member {ID} on heartbeat expiration.",
            "removing member on heartbeat expiration",
        ),
        (
            f"Adding new member {ID} with group instance id null; client reason: not provided",
            "Adding new member",
        ),
        (f"explicit `LeaveGroup` request for ({ID}) members.", "explicit `LeaveGroup` request"),
        (
            f"Adding new member {ID} with group instance id None; client reason: {REJOIN}: {ID}",
            f"Adding new member; client reason: {REJOIN}",
        ),
        (
            f"Removing [{ID}, {ID}] on pending sync request expiration",
            "Removing on pending sync request expiration",
        ),
    ],
)
def test_reasons_are_counted_without_member_ids(reason: str, general: str) -> None:
    text = (
        f"Preparing to rebalance group g in state Stable with old generation 13 (reason: {reason})"
    )
    line = Logged("server.log:1", 0, 1, text)
    assert line.rebalance == (13, reason.rstrip("."))
    older = line._replace(text=text.replace("13 ", "13 (__consumer_offsets-1) "))  # Kafka 2
    assert older.rebalance == line.rebalance
    assert line.reason_in_general == general


AT = "[2026-06-03 11:49:05,75"
LINES = tuple(
    f"{AT}{number}] INFO [GroupCoordinator id=0] {text}{LOGGER}"
    for number, text in enumerate(
        (
            "Member reader-a-1 in group parcels has failed, removing it from the group",
            (
                "Preparing to rebalance group parcels in state PreparingRebalance with old"
                " generation 13 (reason: removing member reader-a-1 on heartbeat expiration)"
            ),
            "Stabilized group parcels generation 14 (__consumer_offsets-3) with 1 members",
        )
    )
)


def _docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-06-03T11:49:05.8Z"})


def _layout(line: str) -> str:
    time, _, text = line[1:].partition("] INFO ")
    return json.dumps({"@timestamp": time.replace(",", "."), "message": text.removesuffix(LOGGER)})


@pytest.mark.parametrize("wrap", [str, _docker, _layout, lambda line: f"kafka-0 | {line}"])
def test_a_group_is_explained_from_server_log_alone(tmp_path: Path, wrap: object) -> None:
    file = tmp_path / "server.log"
    assert callable(wrap)
    file.write_text("".join(f"{wrap(line)}\n" for line in (*LINES, LINES[-1])))
    group = _groups(Where(files=[file]), "parcels")
    story = group.story()
    assert [(each.id, each.connection) for each in story] == [
        ("server.log:1", "broker 0"),
        ("server.log:2", "broker 0"),
        ("server.log:3", "broker 0"),
    ]
    assert story[1].time - story[0].time == 1
    assert story[1].said == "No heartbeat of the member arrived within session.timeout.ms."
    assert group.ending() == [
        "group parcels was in generation 14 at 11:49:05.752",
        "the coordinator began 1 rebalance: removing member on heartbeat expiration (1)",
    ]


def test_lines_of_one_millisecond_keep_their_order(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("".join(f"{AT}0{line[len(AT) + 1 :]}\n" for line in LINES))
    story = _groups(Where(files=[file]), "parcels").story()
    assert [each.id for each in story] == ["server.log:1", "server.log:2", "server.log:3"]


def test_groups_of_the_file_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("\n".join(LINES))
    with pytest.raises(UserError, match=r"no group other\. It has parcels\."):
        _groups(Where(files=[file]), "other")


def _exchange(number: int, at: str, key: int, requested: object, response: object) -> str:
    body = {
        "requestHeader": {
            "requestApiKey": key,
            "requestApiVersion": 3,
            "clientId": "reader-b",
            "correlationId": number,
        },
        "request": requested,
        "response": response,
        "connection": "10.0.0.5:9092-10.0.0.9:38514-1",
        "totalTimeMs": 1,
    }
    return f"[2026-06-03 {at}] DEBUG Completed request:{json.dumps(body)} (kafka.request.logger)"


def test_server_log_lines_explain_rejections_in_a_request_log(tmp_path: Path) -> None:
    beat = {"groupId": "parcels", "generationId": 13, "memberId": "m-b"}
    requests = tmp_path / "kafka-request.log"
    requests.write_text(
        _exchange(1, "11:49:05,800", 12, beat, {"errorCode": 27})
        + "\n"
        + _exchange(2, "11:49:05,900", 12, beat | {"memberId": "reader-a-1"}, {"errorCode": 25})
    )
    (tmp_path / "server.log").write_text("\n".join(LINES))
    where = Where(files=[requests, tmp_path / "server.log"], broker=0)
    story = _groups(where, "parcels").story()
    assert [each.id for each in story] == [
        *("server.log:1", "server.log:2", "server.log:3"),
        *("kafka-request.log:1", "kafka-request.log:2"),
    ]
    assert story[3].refused[0].because == (
        "A rebalance is under way: removing member reader-a-1 on heartbeat expiration"
        " (server.log:2)."
    )
    assert "on heartbeat expiration" in story[4].refused[0].because
    assert "server.log:2" in story[4].refused[0].because
