"""Normalised responses: symbols for generated values, and no order where there is none."""

from typing import Any

from brokertwin.testing.exam.bodies import World
from brokertwin.testing.exam.model import View
from brokertwin.testing.exam.normal import Normalizer

TIME = 1_700_000_000_000


def normal(body: Any, view: View | None = None, world: World | None = None) -> Any:
    return Normalizer(world or a_world()).response(body, view)


def a_world() -> World:
    world = World("exam-1-", TIME, [9])
    world.name("a")
    world.topic_ids["a"] = "AbCdEfGhIjKlMnOpQrStUv"
    return world


def test_generated_ids_are_numbered_in_order_of_appearance() -> None:
    made = Normalizer(a_world())
    assert made.response({"producerId": 17}) == {"producerId": "<pid1>"}
    assert made.response({"producerId": 12}) == {"producerId": "<pid2>"}
    assert made.response({"producerId": 17}) == {"producerId": "<pid1>"}


def test_values_that_mean_none_stay() -> None:
    body = {"producerId": -1, "sessionId": 0, "memberId": "", "leaderId": -1}
    assert normal(body) == body


def test_own_names_ids_and_nodes_have_their_symbols() -> None:
    body = {"name": "exam-1-a", "topicId": "AbCdEfGhIjKlMnOpQrStUv", "leaderId": 9}
    assert normal(body) == {"name": "a", "topicId": "<id a>", "leaderId": "<node1>"}


def test_times_of_the_scenario_are_relative_and_others_are_not_compared() -> None:
    assert normal({"timestamp": TIME + 7}) == {"timestamp": "<t0+7>"}
    assert normal({"timestamp": TIME + 90_000}) == {"timestamp": "<time>"}
    assert normal({"timestamp": -1}) == {"timestamp": -1}


def test_epochs_of_groups_count_from_the_first_one() -> None:
    made = Normalizer(a_world())
    assert made.response({"memberEpoch": 5}) == {"memberEpoch": "<epoch>"}
    assert made.response({"groupEpoch": 7}) == {"groupEpoch": "<epoch+2>"}
    assert made.response({"memberEpoch": 0}) == {"memberEpoch": 0}


def test_lists_without_an_order_are_equal_in_any_order() -> None:
    one = {"groups": [{"groupId": "x", "memberId": "m-1"}, {"groupId": "y", "memberId": "m-2"}]}
    other = {"groups": one["groups"][::-1]}
    assert normal(one) == normal(other)


def test_records_keep_their_order() -> None:
    body = {"records": [{"baseOffset": 2}, {"baseOffset": 0}]}
    assert normal(body) == body


def test_masked_fields_and_those_of_the_site_are_left_out() -> None:
    body = {"host": "h", "port": 1, "rack": "r", "throttleTimeMs": 3, "errorCode": 0}
    assert normal(body) == {"errorCode": 0}


def test_ids_inside_messages_are_symbols() -> None:
    made = Normalizer(a_world())
    made.response({"producerId": 42})
    message = {"errorMessage": "Producer 42 of exam-1-a at 1700000000123 has 7"}
    expected = {"errorMessage": "Producer <pid1> of a at <number> has 7"}
    assert made.response(message) == expected


def test_view_takes_own_elements_and_leaves_fields_out() -> None:
    body = {"topics": [{"name": "exam-1-a"}, {"name": "other"}], "clusterId": "c", "errorCode": 0}
    found = normal(body, View(own=["topics"], without=["clusterId"]))
    assert found == {"topics": [{"name": "a"}], "errorCode": 0}
    assert normal({"errorCode": 0, "epoch": 4}, View(only=["errorCode"])) == {"errorCode": 0}
