"""Schedules deliver each message once, and keep the order between two machines."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.bodies import Body
from brokertwin.state.cell.delivery import (
    AtOnce,
    DeliveryOrder,
    HeldBack,
    MetadataRead,
    RandomDelivery,
)
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.events import Event, Kind
from brokertwin.state.core.records import TopicRemoved
from brokertwin.state.core.tables import Table

BROKERS = [1, 2, 3]
TOPIC_ID = "DE7zrq9QQU-L7aF6gqB0mA"
E2 = Event(id="e2", cluster="c")


class Nothing(Body):
    """An empty body."""


def message(sender: int, receiver: int, number: int) -> Message:
    return Message(sender, receiver, 27, Nothing(), context=str(number))


def delivered(schedule: DeliveryOrder) -> list[MetadataRead | Message]:
    result = []
    while (step := schedule.next()) is not None:
        result.append(step)
    return result


def test_metadata_is_delivered_before_messages() -> None:
    schedule = AtOnce()
    schedule.send([message(1, 2, 0), message(1, 3, 1)])
    schedule.publish(TopicRemoved(TOPIC_ID), [1, 2])
    kinds = [getattr(step, "broker", None) for step in delivered(schedule)]
    assert kinds == [1, 2, None, None]


def test_effects_of_a_held_request_wait_for_arrival() -> None:
    table = Table()
    held = HeldBack(table)
    held.begin(Event(id="e1", cluster="c", is_held=True))
    held.publish(TopicRemoved(TOPIC_ID), BROKERS)
    requested = message(1, CONTROLLER, 0)
    held.send([requested])
    assert delivered(held) == [requested], "what goes to the controller does not wait"
    for event in (None, Event(id="e0/complete", cluster="c", kind=Kind.COMPLETE), E2):
        held.begin(event)
        held.publish(TopicRemoved(TOPIC_ID), BROKERS)
    assert delivered(held) == [], "records queue behind one that waits"
    assert held.arrive("e1", BROKERS)
    assert len(delivered(held)) == 3 * len(BROKERS), "those of no exchange follow"
    assert not held.arrive("e1", BROKERS)
    assert held.arrive("e2", BROKERS)
    assert len(delivered(held)) == len(BROKERS)
    sent = message(1, 2, 1)
    held.send([sent])
    assert delivered(held) == [sent], "a later event is not held"


SENT = st.lists(st.tuples(st.sampled_from(BROKERS), st.sampled_from(BROKERS)), max_size=12)


@given(SENT, st.randoms(use_true_random=False))
def test_random_delivery_keeps_the_order_between_two_machines(
    ways: list[tuple[int, int]], random: object
) -> None:
    choose: Callable[[int], int] = random.randrange  # type: ignore[attr-defined]
    schedule = RandomDelivery(choose)
    sent = [message(sender, receiver, at) for at, (sender, receiver) in enumerate(ways)]
    schedule.send(sent)
    schedule.publish(TopicRemoved(TOPIC_ID), BROKERS)
    steps = delivered(schedule)
    got = [step for step in steps if isinstance(step, Message)]
    assert sorted(int(m.context) for m in got) == list(range(len(sent)))
    for way in set(ways):
        numbers = [int(m.context) for m in got if (m.sender, m.receiver) == way]
        assert numbers == sorted(numbers)
    assert sorted(step.broker for step in steps if isinstance(step, MetadataRead)) == BROKERS
