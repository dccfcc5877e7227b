"""Which scenarios an exam may play: a read-only one changes nothing."""

from typing import Any

import pytest

from brokertwin.testing.exam.model import Do, ExamSeverity, Scenario, Step
from brokertwin.testing.exam.rights import Rights, not_asked


def scenario(**step: Any) -> Scenario:
    return Scenario("one", "A rule.", "Class", ExamSeverity.DATA, [Step(**step)], [])


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"api": "Fetch"}, ""),
        ({"do": Do.SEND, "api": "ListOffsets"}, ""),
        ({"api": "Produce"}, "Produce may change the cluster"),
        ({"do": Do.SEND, "api": "Produce"}, "Produce may change the cluster"),
        ({"api": "Metadata", "body": {"allowAutoTopicCreation": False}}, ""),
        ({"api": "Metadata"}, "Metadata may change the cluster"),
        ({"do": Do.WAIT}, ""),
        ({"do": Do.TOPIC, "name": "a"}, "topic may change the cluster"),
        ({"do": Do.RAW, "api": "Fetch"}, ""),
        ({"do": Do.RAW, "api": "Produce"}, "Produce may change the cluster"),
        ({"do": Do.RAW, "body": [{"$frame": {"api": "Fetch"}}]}, ""),
        (
            {"do": Do.RAW, "body": [{"$frame": {"api": each}} for each in ("Fetch", "Produce")]},
            "raw may change the cluster",
        ),
        ({"do": Do.RAW, "body": "00"}, "raw may change the cluster"),
    ],
)
def test_a_read_only_exam_plays_only_what_changes_nothing(
    step: dict[str, Any], reason: str
) -> None:
    assert not_asked(scenario(**step), Rights.ADMIN, is_read_only=True) == reason
    assert not_asked(scenario(**step), Rights.ADMIN, is_read_only=False) == ""


@pytest.mark.parametrize(
    ("api", "reason"),
    [("Produce", ""), ("CreateAcls", "CreateAcls needs rights on the cluster")],
)
def test_a_user_without_rights_on_the_cluster_is_not_asked_for_them(api: str, reason: str) -> None:
    assert not_asked(scenario(api=api), Rights.USER, is_read_only=False) == reason
    assert not_asked(scenario(api=api), Rights.ADMIN, is_read_only=False) == ""
