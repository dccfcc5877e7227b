"""Exhaustive search: what it finds, what it must not lose, and how it goes on."""

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from brokertwin.page.scenes import Player
from brokertwin.protocol.bodies import render
from brokertwin.simulation.explore import machine, recall, requests
from brokertwin.simulation.explore.api import (
    Between,
    Client,
    Cluster,
    Faults,
    Invariant,
    Model,
    Send,
    varied,
)
from brokertwin.simulation.explore.clients import (
    GroupWorker,
    IdempotentProducer,
    TransactionalProducer,
)
from brokertwin.simulation.explore.invariants import (
    AcknowledgedRecordsStay,
    CellHolds,
    NoHangingTransaction,
    NothingTwice,
    TransactionsAsSaid,
)
from brokertwin.simulation.explore.machine import ForkableCell, exchanged_bytes
from brokertwin.simulation.explore.mistakes import ModelError
from brokertwin.simulation.explore.models import built_in, replication, transactions
from brokertwin.simulation.explore.recall import Recall
from brokertwin.simulation.explore.scenes import scene_of
from brokertwin.simulation.explore.scripts import NotPlayableError, recording, script
from brokertwin.simulation.explore.search import Options, Result, Search, walk
from brokertwin.simulation.explore.shown import as_html, as_svg, as_text, told
from brokertwin.simulation.explore.visited import Frontier, Visited
from brokertwin.simulation.explore.world import Explorer
from brokertwin.state.core.tables import TABLE_NAMES
from brokertwin.state.logs import producer

LARGE = {
    "two-producers-v1": 200,
    "two-producers-v2": 200,
    "exactly-once": 200,
    "eager-rebalance": 200,
    "static-commits": 200,
    "careful-producer": 200,
    "truncation-by-epoch": 200,
    "agreeing-logs": 200,
    "reader-with-epochs": 200,
    "leader-changes": 200,
    "consumer-group": 200,
    "streams-group": 200,
    "fetch-session": 200,
    "share-rivals": 200,
}
"""Models whose search is bounded here; docs/explore.md has the complete ones."""

SLOW = {"offsets-without-generation", "diverging-logs", "reader-without-epochs"}
"""Models with a counterexample that takes more than a second to find."""


def search(model: Model, **options: Any) -> Result:
    return Search(model, Options(**options)).run()


@pytest.mark.parametrize("name", sorted(built_in().keys() - SLOW))
def test_a_built_in_model_violates_what_it_says(name: str) -> None:
    model = built_in()[name]

    result = search(model, states=LARGE.get(name, 0))

    assert result.violation.partition(":")[0] == model.expected
    assert bool(result.violation) or result.is_complete or name in LARGE
    assert result.done or not result.is_complete


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_large_model_violates_what_it_says(name: str) -> None:
    model = built_in()[name]

    assert search(model).violation.partition(":")[0] == model.expected


def test_the_first_counterexample_is_the_shortest() -> None:
    model = built_in()["torn-transaction-v1"]

    result = search(model)

    assert result.violation == "TransactionsAsSaid: p1a is committed; p has not ended it"
    assert len(result.path) == 8
    assert result.depth == 7


SMALL = ("torn-transaction-v2", "late-batches", "hanging-transaction-v2", "remembered-producer")


@pytest.mark.parametrize("name", SMALL)
def test_a_call_as_one_step_reaches_the_same_states_of_brokers(name: str) -> None:
    model = built_in()[name]

    together = search(model, collects=True)
    apart = search(model, collects=True, is_split=True)

    assert together.cell_states == apart.cell_states
    assert together.states < apart.states


@pytest.mark.long
def test_one_order_of_commuting_deliveries_reaches_the_same_states() -> None:
    model = replication.truncation(False, records=1, brokers=2, stops=1)
    cluster = msgspec.structs.replace(model.cluster, between=frozenset(Between))
    model = msgspec.structs.replace(model, cluster=cluster)

    one_order = search(model, collects=True)
    both = search(model, collects=True, has_sleep=False)

    assert one_order.states == both.states
    assert one_order.cell_states == both.cell_states
    assert one_order.deliveries < both.deliveries


def test_exchanged_clients_count_once() -> None:
    model = transactions.zombies(2)
    model = msgspec.structs.replace(model, faults=Faults())

    symmetric = search(model)
    apart = search(msgspec.structs.replace(model, symmetric=()))

    assert symmetric.is_complete
    assert apart.is_complete
    assert apart.states // 2 <= symmetric.states < apart.states * 0.6


def test_names_are_exchanged_in_bytes() -> None:
    assert exchanged_bytes(b"p q pq", b"p", b"q") == b"q p qp"


def test_a_loaded_state_is_that_of_its_deliveries() -> None:
    explorer = Explorer(built_in()["torn-transaction-v2"])
    world = first = explorer.first()
    for _ in range(4):
        world = explorer.take(world, explorer.steps(world)[0])
    explorer.machine.enter(world.cell)
    walked = explorer.machine.cell.columns()
    other = ForkableCell(explorer.model.cluster)
    other.load(first.cell)
    other.load(world.cell)

    loaded = other.cell.columns()

    assert loaded == walked


@pytest.mark.parametrize("name", ["late-batches", "consumer-group"])
def test_remembered_decisions_lose_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = search(built_in()[name], collects=True)
    monkeypatch.setattr(machine, "EFFECTS_MAX", 0)
    monkeypatch.setattr(recall, "RESULTS_MAX", 0)
    decided = search(built_in()[name], collects=True)

    assert decided.states == remembered.states
    assert decided.cell_states == remembered.cell_states
    assert decided.applied == remembered.applied
    assert decided.answered == remembered.answered


RECALLING = "exactly-once", "fetch-session", "share-group", "share-rivals", "truncation-by-epoch"


@pytest.mark.parametrize("name", RECALLING)
def test_a_recalled_result_is_that_of_the_state(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recalled: list[Any] = []
    find, compute = Recall.find, Recall.compute

    def found(known: Recall, items: Any, key: Any) -> None:
        recalled.append(find(known, items, key))

    def compared(known: Recall, items: Any, key: Any, act: Any) -> Any:
        expected, result = recalled.pop(), compute(known, items, key, act)
        assert expected in (None, result)
        counts[expected is not None] += 1
        return result

    counts: Counter[bool] = Counter()
    monkeypatch.setattr(Recall, "find", found)
    monkeypatch.setattr(Recall, "compute", compared)
    search(built_in()[name], states=150)

    assert counts[True] > counts[False] / 2


def test_deadlines_of_others_do_not_keep_a_decision_from_being_recalled() -> None:
    sessions = {"a": 10_000, "b": 10_000, "c": 20_000}
    workers = tuple(GroupWorker(n, group=n, session_ms=ms) for n, ms in sessions.items())
    cluster = Cluster(topics={"input": 1}, groups=tuple(sessions))
    explorer = Explorer(Model(name="apart", about="", clients=workers, cluster=cluster))
    first = explorer.first()
    for other in (0, 1):
        world = explorer.take(explorer.take(first, ("call", other, 0)), ("call", 2, 0))
        assert world.clients[2].state != workers[2].start


def test_all_items_are_checked_after_messages_have_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    are_all = []

    def checked(cell: Any, touched: Any) -> Iterator[str]:
        metadata = cell.tables.metadata
        are_all.append(touched.keys("metadata", metadata) == metadata.keys())
        yield from ()

    monkeypatch.setattr(machine, "PARTS", (checked,))
    search(built_in()["truncation-by-epoch"], states=200)

    assert any(are_all)
    assert not all(are_all)


class Reads(NamedTuple):
    count: int


class Writes(NamedTuple):
    count: int


def test_states_of_two_classes_with_equal_fields_are_two() -> None:
    class Chooses(Client):
        name, start = "one", None

        def sends(self, state: Any) -> list[Send]:
            if state is None:
                return [requests.fetch("orders", 0, 0), requests.fetch("orders", 0, 1)]
            return [requests.produce("orders", 0, "r0")] if isinstance(state, Writes) else []

        def receives(self, state: Any, send: Send, response: Any) -> Any:
            offset = send.body["topics"][0]["partitions"][0]["fetchOffset"] if not state else -1
            return (Reads, Writes)[offset](1) if offset >= 0 else "done"

    model = Model(
        name="chooses", about="", clients=(Chooses(),), cluster=Cluster(topics={"orders": 1})
    )

    assert search(model).answered["PRODUCE", 0] == 1


def test_an_invariant_that_depends_on_more_than_its_arguments_is_a_mistake() -> None:
    class Moody(Invariant):
        times = 0

        def check(self, ghost: Any, view: Any) -> None:
            self.times += 1
            for partition in (0, 1)[:: 1 if self.times % 2 else -1]:
                view.log(1, "orders", partition)

    clients = IdempotentProducer("one", 2), IdempotentProducer("other", 2)
    cluster = Cluster(topics={"orders": 2})
    model = Model(name="moody", about="", clients=clients, cluster=cluster, invariants=(Moody(),))
    with pytest.raises(ModelError, match=r"Moody\.check depends on more than its arguments"):
        search(model)


def test_taking_a_step_leaves_the_state_before_it_unchanged() -> None:
    explorer = Explorer(built_in()["torn-transaction-v2"])
    world = explorer.first()
    before = {name: dict(world.cell.tables[name]) for name in TABLE_NAMES}

    explorer.take(world, ("call", 0, 0))

    assert before == world.cell.tables


def test_a_bounded_search_continues_from_its_checkpoint(tmp_path: Any) -> None:
    model = built_in()["remembered-producer"]
    file = str(tmp_path / "search")

    first = search(model, states=50, checkpoint=file)
    second = search(model, checkpoint=file)

    assert first.ended_by == "states"
    assert second.is_complete
    assert second.states == search(model).states


def test_a_search_in_which_time_has_passed_continues(tmp_path: Any) -> None:
    model, file = built_in()["share-group"], str(tmp_path / "search")

    assert search(model, states=300, checkpoint=file).taken["wait"]
    assert search(model, checkpoint=file).states == 749


def test_a_restart_forgets_a_delivery_that_has_not_ended() -> None:
    model = varied(varied(built_in()["share-group"], "waits", "1"), "lost", "0")

    assert search(model).is_complete
    restarted = search(varied(model, "stops", "1"))
    assert restarted.violation.endswith("record 0 of partition 0 was delivered 3 times")
    assert len(restarted.path) == 9


def test_a_new_member_that_gives_up_joins_with_another_id() -> None:
    model = varied(built_in()["eager-rebalance"], "late", "1")

    assert search(model, depth=5).ended_by == "depth"


def test_an_interrupted_search_loses_no_state(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file, calls = built_in()["remembered-producer"], str(tmp_path / "search"), []
    take = Explorer.take

    def interrupted(explorer: Explorer, world: Any, step: Any) -> Any:
        calls.append(step)
        if len(calls) == 60:
            raise KeyboardInterrupt
        return take(explorer, world, step)

    monkeypatch.setattr(Explorer, "take", interrupted)

    first, second = search(model, checkpoint=file), search(model, checkpoint=file)

    assert first.ended_by == "interrupt"
    assert second.is_complete
    assert second.states == search(model).states


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Any) -> None:
    file = str(tmp_path / "search")
    search(built_in()["late-batches"], states=10, checkpoint=file)

    with pytest.raises(ValueError, match="another model"):
        search(built_in()["remembered-producer"], checkpoint=file)


@pytest.mark.processes
def test_workers_find_the_same_states() -> None:
    model = built_in()["remembered-producer"]

    alone, together = search(model), search(model, workers=2)

    assert together.states == alone.states
    assert together.is_complete


def test_fingerprints_and_frontiers_go_to_disk() -> None:
    model = built_in()["remembered-producer"]

    on_disk = search(model, memory_max=10, frontier_max=3)

    assert on_disk.states == search(model).states


def test_visited_keeps_fingerprints_across_runs() -> None:
    visited = Visited(memory_max=5)

    assert all(visited.add(number * 7) for number in range(100))
    assert not any(visited.add(number * 7) for number in range(100))
    assert len(visited) == 100
    assert 3 not in visited
    assert sorted(visited.everything()) == [number * 7 for number in range(100)]


def test_a_frontier_keeps_its_order_on_disk() -> None:
    frontier = Frontier(memory_max=3)
    for number in range(10):
        frontier.append(number)

    assert len(frontier) == 10
    assert list(frontier) == list(range(10))
    assert len(frontier) == 0


def test_random_walks_find_a_flaw_that_is_too_deep_for_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = producer.check_sequence

    def careless(known: Any, batch: Any, *rules: Any) -> Any:
        return producer.ACCEPTED if batch.base_sequence >= 24 else check(known, batch, *rules)

    monkeypatch.setattr(producer, "check_sequence", careless)
    model = Model(
        name="own",
        about="",
        clients=(IdempotentProducer("p", 40),),
        cluster=Cluster(topics={"orders": 1}),
        faults=Faults(late=3, lost=3),
        invariants=(NothingTwice(),),
    )

    searched = search(model, states=3_000)
    walked = walk(model, 0, 1_000)

    assert searched.violation == ""
    assert searched.depth < 24
    assert walked.violation.startswith("NothingTwice")
    explorer = Explorer(model)
    world = explorer.first()
    for step in walked.path:
        assert explorer.violation(world) is None
        assert step in explorer.steps(world)
        world = explorer.take(world, step)
    assert explorer.violation(world) == walked.violation


def test_interrupted_random_walks_report_those_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([True] * 50)
    take = Explorer.take

    def interrupted(explorer: Explorer, world: Any, step: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return take(explorer, world, step)

    monkeypatch.setattr(Explorer, "take", interrupted)
    result = walk(built_in()["torn-transaction-v2"], 0, 1_000)
    assert (result.ended_by, result.violation) == ("interrupt", "")
    assert 0 < result.walks < 50


class Twice(Client):
    """A client that sends one batch with acks 0 twice."""

    name = "twice"
    start = 0

    def sends(self, state: int) -> list[Send]:
        return [requests.produce("orders", 0, "r")] if state < 2 else []

    def receives(self, state: int, _send: Send, _response: Any) -> int:
        return state + 1


class NoDuplicate(Invariant):
    """No record is in the log twice, also not without idempotence."""

    def check(self, _ghost: Any, view: Any) -> str | None:
        names = [each.locator for each in view.batches(1, "orders", 0)]
        return "a record is there twice" if len(set(names)) < len(names) else None


def test_a_model_of_ones_own() -> None:
    model = Model(
        name="own",
        about="",
        clients=(Twice(),),
        cluster=Cluster(topics={"orders": 1}),
        invariants=(NoDuplicate(), NothingTwice(), CellHolds()),
    )

    result = search(model)

    assert result.violation == "NoDuplicate: a record is there twice"
    assert result.path == [("call", 0, 0), ("call", 0, 0)]


def test_a_transactional_id_that_is_not_listed_hangs_no_transaction() -> None:
    model = Model(
        name="own",
        about="",
        clients=(TransactionalProducer("p", "billing", ["commit"], version=2),),
        cluster=Cluster(topics={"orders": 1}, transactional_ids=("other",)),
        invariants=(NoHangingTransaction(), TransactionsAsSaid()),
    )

    result = search(model)

    assert result.violation == ""
    assert result.done == 1


def test_a_producer_that_crashes_writes_nothing_twice() -> None:
    model = Model(
        name="own",
        about="",
        clients=(IdempotentProducer("p", 3),),
        cluster=Cluster(topics={"orders": 1}),
        faults=Faults(crashes=2, late=1, lost=1),
        invariants=(NothingTwice(), AcknowledgedRecordsStay()),
    )

    result = search(model)

    assert result.violation == ""
    assert result.is_complete
    assert result.done


def test_symmetric_names_that_occur_elsewhere_are_refused() -> None:
    clients = (IdempotentProducer("p", 1), IdempotentProducer("q", 1))
    model = Model(name="own", about="", clients=clients, symmetric=(("p", "q"),))

    with pytest.raises(ModelError, match="at least 6 characters"):
        Explorer(model)


def test_two_clients_with_one_name_are_refused() -> None:
    clients = (IdempotentProducer("p", 1),) * 2
    model = Model(name="own", about="", clients=clients)

    with pytest.raises(ModelError, match="same name"):
        Explorer(model)


def story_of(name: str) -> Any:
    model = built_in()[name]
    result = search(model)
    return told(model, result.path, result.violation)


def test_a_counterexample_is_a_diagram() -> None:
    story = story_of("torn-transaction-v1")

    text = as_text(story).splitlines()

    assert text[0].split() == ["p", "broker", "1"]
    assert "EndTxn commit" in text[7]
    assert text[7].endswith("(is late; the client gives up)")
    assert text[-1] == f"violated: {story.violation}"
    root = ElementTree.fromstring(as_svg(story))
    words = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert words.count("EndTxn commit") == 1
    assert "EndTxn commit  (arrives late)" in words
    assert as_svg(story) in as_html(story)


def test_a_lost_response_is_drawn_as_lost() -> None:
    model = Model(
        name="own",
        about="",
        clients=(Twice(),),
        cluster=Cluster(topics={"orders": 1}),
        faults=Faults(lost=1),
    )
    story = told(model, [("lost", 0, 0), ("call", 0, 0)], "none")

    _, request, response, _, next_response, _ = as_text(story).splitlines()

    assert request.endswith("▶│")
    assert response.endswith("─│  (lost)")
    assert "│✗──" in response
    assert "│◀──" in next_response
    assert as_svg(story).count('class="lost"') == 1
    assert [step["say"] for step in scene_of(story)["steps"]][2] == (
        "Produce r (its response is lost)"
    )


def test_a_diagram_shows_offsets_and_their_partition() -> None:
    text = as_text(story_of("late-commit"))

    assert "OffsetFetch input-0 " in text
    assert "0 NONE, offset -1 " in text
    assert "OffsetCommit 2 input-0 generation 1 " in text


def test_a_counterexample_is_a_recording() -> None:
    documents = recording(story_of("torn-transaction-v1"))

    assert [each["requestHeader"]["requestApiKey"] for each in documents] == [
        22,
        24,
        0,
        26,
        24,
        0,
        26,
    ]
    assert documents[-1]["connection"] == "p-late"
    assert documents[-1]["response"]["errorCode"] == 0


def test_a_counterexample_is_a_scenario_with_references() -> None:
    written = script(story_of("torn-transaction-v1"))

    (add,) = [each for each in written.scenario["steps"] if each.get("label", "").startswith("2:")]
    assert add["body"]["v3AndBelowProducerId"] == {"$ref": "2.producerId"}
    assert add["body"]["v3AndBelowTopics"] == [{"name": {"$name": "orders"}, "partitions": [0]}]
    assert written.committed == {"read_committed orders-0": ["p0a", "p1a"]}
    assert [each.codes for each in written.called] == [(0,)] * 7


def test_a_step_has_the_partitions_that_its_response_assigns() -> None:
    written = script(story_of("late-join"))

    given = [each.given for each in written.called]
    assert given == ["partitions 0, 1", "no partition", "partitions 0", "partitions 1"]


@pytest.mark.parametrize("name", ["torn-transaction-v1", "late-commit", "late-join"])
def test_a_counterexample_plays_as_a_scene(name: str) -> None:
    story = story_of(name)
    scene = json.loads(json.dumps(scene_of(story)))
    player = Player(scene)
    steps = [player.do(step) for step in scene["steps"] if not step.get("hidden")]
    responses = [each["response"] for step in steps for each in step["responses"]]
    expected = [render(e.body, e.send.version) for e in story.lines if e.send and e.body]
    assert responses[: len(expected)] == expected


def test_a_counterexample_with_several_brokers_cannot_be_played() -> None:
    with pytest.raises(NotPlayableError, match="several brokers"):
        script(story_of("truncation-to-hw"))
