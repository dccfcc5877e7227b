"""Subscriptions by regular expression: resolution and assignment.

Responses of a real broker are in the capture `topic_regexes`. These tests cover single rules.
"""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.consumer_groups import GROUP, Consumer, ConsumerBench, settle
from tests.support.mixed_groups import Classic

ALL_FOO = [0, 1, 2, 3, 4, 5]


def join(bench: ConsumerBench, member: str, regex: str, *names: str, **fields: Any) -> Any:
    """Join with a regular expression and optional names; return the response."""
    given = {"subscribedTopicNames": list(names), "subscribedTopicRegex": regex}
    return bench.join(member, **{**given, **fields})


def found(bench: ConsumerBench) -> dict[str, list[str]]:
    return {regex: each.topics for regex, each in bench.group().resolved.items()}


def test_topics_are_assigned_with_the_next_heartbeat() -> None:
    bench = ConsumerBench()
    response = join(bench, "a", "fo+")
    assert (response["memberEpoch"], bench.reported(response)) == (1, {})
    described = bench.describe()
    assert (described["groupState"], described["groupEpoch"]) == ("Assigning", 2)
    assert described["members"][0]["subscribedTopicRegex"] == "fo+"
    response = bench.beat("a", 1)
    assert (response["memberEpoch"], bench.reported(response)) == (2, {"foo": ALL_FOO})


def test_names_and_an_expression_are_combined() -> None:
    bench = ConsumerBench()
    assert bench.reported(join(bench, "a", "f.*", "bar")) == {"bar": [0, 1, 2]}
    bench.tick(1_000)
    assert bench.reported(bench.beat("a", 2)) == {"foo": ALL_FOO, "bar": [0, 1, 2]}


def test_expression_of_other_members_is_already_resolved() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    bench.tick(1_000)
    bench.beat("a", 1)
    bench.tick(1_000)
    assert join(bench, "b", "f.*")["memberEpoch"] == 3, "a new group epoch at once"
    targets = {m["memberId"]: m["targetAssignment"] for m in bench.describe()["members"]}
    assert [len(each["topicPartitions"][0]["partitions"]) for each in targets.values()] == [3, 3]


def test_expressions_are_resolved_at_most_every_ten_seconds() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    join(bench, "b", "b.*")
    assert found(bench) == {"f.*": ["foo"]}, "the second expression is unresolved"
    bench.tick(10_000)
    bench.beat("a", 1)
    assert found(bench) == {"f.*": ["foo"]}
    bench.tick(1)
    bench.beat("a", 2)
    assert found(bench) == {"f.*": ["foo"], "b.*": ["bar"]}, "by the heartbeat of any member"


def test_created_topic_is_found() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    bench.beat("a", 1)
    bench.ids["fool"] = bench.topic("fool", 1)
    bench.tick(10_001)
    epoch = bench.beat("a", 2)["memberEpoch"]
    assert found(bench) == {"f.*": ["foo", "fool"]}
    assert bench.reported(bench.beat("a", epoch)) == {"foo": ALL_FOO, "fool": [0]}
    before = bench.group().resolved
    bench.tick(10_001)
    bench.beat("a", 3)
    assert bench.group().resolved == before, "nothing new, so nothing is written"


def test_deleted_topic_is_no_longer_assigned() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*|bar")
    bench.tick(1_000)
    bench.beat("a", 1)
    bench.request("DELETE_TOPICS", 4, topicNames=["foo"], timeoutMs=1000)
    bench.tick(1_000)
    assert bench.reported(bench.beat("a", 2)) == {"bar": [0, 1, 2]}
    assert found(bench) == {"f.*|bar": ["bar", "foo"]}, "until they are resolved again"


def test_refresh_interval_resolves_again() -> None:
    bench = ConsumerBench(group_consumer_regex_refresh_interval_ms=30_000)
    join(bench, "a", "f.*")
    before = bench.now
    bench.tick(30_000)
    bench.beat("a", 1)
    assert bench.group().resolved["f.*"].timestamp == before
    bench.tick(1)
    bench.beat("a", 2)
    assert bench.group().resolved["f.*"].timestamp == bench.now


def test_last_member_of_an_expression_removes_it() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    bench.beat("a", 1)
    response = bench.beat("a", 2, subscribedTopicRegex="")
    assert (found(bench), bench.group().regex_subscribers) == ({}, {})
    assert bench.reported(response) == {}, "it revokes all"
    bench.beat("a", response["memberEpoch"], subscribedTopicRegex="b.*", topicPartitions=[])
    assert found(bench) == {"b.*": ["bar"]}
    bench.beat("a", -1)
    assert found(bench) == {}


def test_replacing_expression_waits_for_its_topics() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    bench.beat("a", 1)
    response = bench.beat("a", 2, subscribedTopicRegex="b.*")
    assert bench.reported(response) == {}
    epoch = bench.group().group_epoch
    response = bench.beat("a", 2, topicPartitions=[])
    assert found(bench) == {"b.*": ["bar"]}
    assert bench.group().group_epoch == epoch + 1, "one epoch, not two"


def test_invalid_expression_changes_nothing() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*", instanceId="i")
    bench.beat("a", 1)
    before = bench.group()
    words = "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    for refused in (
        join(bench, "b", "("),
        bench.beat("a", 2, subscribedTopicRegex="("),
    ):
        assert (refused["errorCode"], refused["errorMessage"]) == (128, words)
    assert bench.group() == before
    bench.beat("a", -2, instanceId="i")
    assert join(bench, "b", "(", instanceId="i")["errorCode"] == 128
    assert list(bench.group().members) == ["a"], "and no static member is replaced"
    bench.tick(46_000)
    assert bench.group().members == {}, "whose session timeout is unchanged"


def test_only_topics_that_the_member_may_describe_are_found() -> None:
    class_name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    bench = ConsumerBench(authorizer_class_name=class_name, super_users="User:ANONYMOUS")
    rule = {"permissionType": 3, "host": "*", "principal": "User:reader"}
    acls = [
        {"resourceType": kind, "resourceName": name, "resourcePatternType": 3, "operation": what}
        for kind, name, what in ((3, GROUP, 3), (2, "foo", 8))
    ]
    bench.request("CREATE_ACLS", 3, creations=[{**acl, **rule} for acl in acls])
    join(bench, "a", ".*", principal="User:reader")
    assert found(bench) == {".*": ["foo"]}
    bench.tick(10_001)
    join(bench, "b", "b.*")
    assert found(bench) == {".*": ["__consumer_offsets", "bar", "foo"], "b.*": ["bar"]}


def test_offsets_of_topics_found_by_an_expression_are_not_deleted() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    topics = [{"name": name, "partitions": [{"partitionIndex": 0}]} for name in ("foo", "bar")]
    response = bench.request("OFFSET_DELETE", 0, groupId=GROUP, topics=topics)
    errors = {each["name"]: each["partitions"][0]["errorCode"] for each in response["topics"]}
    assert errors == {"foo": Error.GROUP_SUBSCRIBED_TO_TOPIC, "bar": Error.NONE}


def test_converted_classic_group_has_no_expressions() -> None:
    bench = ConsumerBench()
    join(bench, "a", "f.*")
    bench.tick(1_000)
    bench.beat("a", 1)
    classic = Classic(bench, "bar")
    assert [classic.join(), classic.join()] == [79, 0]
    bench.beat("a", -1)
    response = bench.request("LIST_GROUPS", 5, statesFilter=[], typesFilter=[])
    assert response["groups"][0]["groupType"] == "classic"


@pytest.mark.parametrize(("regexes", "count"), [(("f.*", "f.*"), 6), (("f.*|bar", "foo|b.*"), 9)])
def test_members_share_the_topics_of_their_expressions(regexes: list[str], count: int) -> None:
    bench = ConsumerBench()
    members = [
        Consumer(bench, name, subscribedTopicNames=[], subscribedTopicRegex=regex)
        for name, regex in zip(("a", "b"), regexes, strict=True)
    ]
    for each in members:
        each.beat()
    bench.tick(10_000)
    settle(bench, *members)
    places = [place for each in members for place in each.places()]
    assert len(places) == len(set(places)) == count
