"""`brokertwin explore`: the built-in models, files of one's own, exports, a real broker."""

import inspect
import json
import pydoc
import re
from pathlib import Path
from typing import get_type_hints

import pytest
from typer.testing import CliRunner

from brokertwin.cli.broker.explore import command, played_on
from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.simulation.explore import api, clients, invariants, models, requests
from brokertwin.simulation.explore.models import built_in, model_of
from brokertwin.simulation.explore.reached import Reached
from brokertwin.simulation.explore.scripts import Script, as_pytest, script
from brokertwin.simulation.explore.search import Options, Search
from brokertwin.simulation.explore.shown import told
from brokertwin.testing.broker import KafkaBroker
from tests.support.sources import ROOT

TORN = "torn-transaction-v1"


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["explore", *words], env={"COLUMNS": "120"})
    assert done.exit_code == code, done.output
    return done.output


def script_of(name: str) -> Script:
    model = built_in()[name]
    result = Search(model, Options()).run()
    return script(told(model, result.path, result.violation))


def test_list_shows_what_each_model_violates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    output = run("--list")

    assert all(name in output for name in built_in())
    assert "TransactionsAsSaid" in output
    assert "stops 2, states 200,000" in output


def test_a_violation_exits_with_1_and_shows_the_diagram_and_what_was_covered() -> None:
    output = run(TORN, code=1)

    assert "violated in 8 steps: TransactionsAsSaid" in output
    assert "(arrives late)" in output
    assert "90 PRODUCER_FENCED" in output
    assert "TransactionMetadataWritten" in output


def test_a_search_without_violation_exits_with_0() -> None:
    assert "no violation in any order" in run("torn-transaction-v2")


def test_a_bound_is_reported() -> None:
    assert "ended by the bound: depth" in run("torn-transaction-v2", "--depth", "3")
    assert "ended by the bound: states" in run("torn-transaction-v2", "--states", "20")


def test_json_has_the_exchanges() -> None:
    document = json.loads(run(TORN, "--json", code=1))

    assert document["violation"].startswith("TransactionsAsSaid")
    assert [each["requestHeader"]["requestApiKeyName"] for each in document["exchanges"]][-1] == (
        "END_TXN"
    )


def test_random_walks_take_the_steps_of_the_model() -> None:
    output = run("torn-transaction-v2", "--walk", "30", "--seed", "7")

    assert output.startswith("torn-transaction-v2: 30 walks, ")
    assert "no violation so far; ended by the bound: walks" in output


@pytest.mark.parametrize(
    "words", [("--workers", "2"), ("--progress", "f"), ("--rules",), ("--time", "0")]
)
def test_random_walks_refuse_options_of_a_search(words: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="Cannot combine --walk with"):
        CliRunner().invoke(app, ["explore", TORN, "--walk", "1", *words], catch_exceptions=False)


def test_seed_without_walks_is_refused() -> None:
    with pytest.raises(UserError, match="--seed requires --walk"):
        CliRunner().invoke(app, ["explore", TORN, "--seed", "1"], catch_exceptions=False)


def test_rules_that_were_never_reached_are_reported() -> None:
    output = run("hanging-transaction-v2", "--rules")

    assert "never reached in state/apis/init_producer_id.py: complete, ready" in output


def test_reached_functions_are_not_missing() -> None:
    reached = Reached()
    with reached.watch():
        Search(built_in()["hanging-transaction-v2"], Options()).run()

    assert "handle" not in reached.missing().get("state/apis/produce.py", [])


UNKNOWN_TOPIC = """
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Model

class Writer(Client):
    name, start = "writer", 0
    def sends(self, state):
        return [] if state else [requests.produce("order", 0, "r")]
    def receives(self, state, send, response):
        return int(response.responses[0].partition_responses[0].error_code == 0)

MODEL = Model(name="own", about="", clients=(Writer(),), cluster=Cluster(topics={"orders": 1}))
"""


def test_a_model_in_which_nothing_gets_done_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(UNKNOWN_TOPIC, encoding="utf-8")

    assert "in no order do all clients do what they wanted" in run(str(file))


def test_another_era_has_its_flaw() -> None:
    assert "NothingTwice" in run("remembered-producer", "--set", "era=2.0", code=1)


def test_a_table_exits_with_1_if_one_of_its_searches_finds_a_violation() -> None:
    output = run(TORN, "--set", "late=0,1", code=1)

    assert "no violation in any order" in output
    assert "violated in 8 steps" in output


def test_json_of_several_searches_has_a_document_for_each() -> None:
    first, second = map(json.loads, run(TORN, "--set", "late=0,1", "--json", code=1).splitlines())
    alone = json.loads(run(TORN, "--set", "late=1", "--json", code=1))

    assert (first["set"], first["violation"]) == ({"late": "0"}, "")
    assert second | {"cpuSeconds": 0} == alone | {"cpuSeconds": 0}


@pytest.mark.parametrize("change", ["late=x", "era=0.9", "stop=1", "no.such.setting=1"])
def test_an_unknown_change_is_refused(change: str) -> None:
    done = CliRunner().invoke(app, ["explore", TORN, "--set", change])

    assert isinstance(done.exception, UserError)


def test_rules_of_several_processes_are_refused() -> None:
    done = CliRunner().invoke(app, ["explore", TORN, "--rules", "--workers", "2"])

    assert isinstance(done.exception, UserError)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UserError, match="No built-in model is called 'nothing'"):
        model_of("nothing")


def test_a_file_without_a_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("", encoding="utf-8")

    with pytest.raises(UserError, match="has no MODEL"):
        model_of(str(file))
    with pytest.raises(UserError, match="Cannot read the model"):
        model_of(str(tmp_path / "missing.py"))


def test_a_file_with_a_model_is_explored(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from brokertwin.simulation.explore.models.transactions import torn\nMODEL = torn(1)\n",
        encoding="utf-8",
    )

    assert "violated in 8 steps" in run(str(file), code=1)


PAGE_OF_OUTPUTS = ROOT / "docs" / "explore.md"
PAGE_FOR_AUTHORS = ROOT / "docs" / "explore_models.md"
COUNTER = PAGE_FOR_AUTHORS.read_text("utf-8").split("```python\n")[1].split("```")[0]


def test_the_model_of_the_page_for_authors_is_explored(tmp_path: Path) -> None:
    file = tmp_path / "counter.py"
    file.write_text(COUNTER, encoding="utf-8")

    output = run(str(file), code=1)

    assert "violated in 2 steps: WrittenOnce: ['r0'] is there twice" in output


MISTAKES = {
    "a misspelt check": (
        "def check(",
        "def checks(",
        "WrittenOnce.checks is no method of Invariant; the nearest is check. The name of a helper",
    ),
    "no check": (
        "def check(",
        "def _check(",
        "Cannot explore counter: WrittenOnce has no method check(ghost, view).",
    ),
    "a misspelt hook": (
        "    def receives(",
        "    def on_restrt(self, state):\n        return 0\n\n    def receives(",
        "Writer.on_restrt is no method of Client; the nearest is restarts.",
    ),
    "a parameter too few": (
        "def check(self, ghost, view)",
        "def check(self, view)",
        "WrittenOnce.check must take (self, ghost, view): too many positional arguments.",
    ),
    "check returns a bool": (
        'return f"{sorted(twice)} is there twice" if twice else None',
        "return bool(twice)",
        "WrittenOnce.check returns False, neither a sentence nor None.",
    ),
    "check raises": (
        "names = [",
        "names = [][9]; [",
        "Cannot explore counter: counter.py:23: IndexError: list index out of range.",
    ),
    "a client in place of a tuple": (
        "(Writer(),)",
        "(Writer())",
        "clients is no tuple of objects of Client, like (One(),).",
    ),
    "an invariant in place of a tuple": (
        "(WrittenOnce(),)",
        "(WrittenOnce())",
        "invariants is no tuple of objects of Invariant, like (One(),).",
    ),
    "a client without a name": ("name = ", "_name = ", "Writer has no name."),
    "a client without a first state": ("start = ", "_start = ", "Writer has no start, its first"),
    "sends returns a request": (
        '[requests.produce("orders", 0, f"r{state}")]',
        'requests.produce("orders", 0, "r")',
        "Cannot explore counter: Writer.sends must return a list of Send, not Send.",
    ),
    "sends returns texts": (
        '[requests.produce("orders", 0, f"r{state}")]',
        '["r"]',
        "Cannot explore counter: Writer.sends must return Sends, not str.",
    ),
    "no such API": (
        '[requests.produce("orders", 0, f"r{state}")]',
        '[api.Send(api="PRODUCES", version=9, body={})]',
        "Writer.sends names the API 'PRODUCES', which brokertwin does not have.",
    ),
    "a field in snake_case": (
        '[requests.produce("orders", 0, f"r{state}")]',
        '[api.Send(api="PRODUCE", version=9, body={"topic_data": []})]',
        "returns PRODUCE with a wrong body: Object contains unknown field `topic_data`.",
    ),
    "a field of another type": (
        '[requests.produce("orders", 0, f"r{state}")]',
        '[requests.produce("orders", "0", "r")]',
        "with a wrong body: Expected `int`, got `str` - at `$.topicData[",
    ),
    "no such version": (
        '[requests.produce("orders", 0, f"r{state}")]',
        '[requests.produce("orders", 0, "r", version=99)]',
        "unsupported version: PRODUCE has the versions",
    ),
    "no such broker": (
        'f"r{state}")',
        '"r", broker=2)',
        "Writer.sends names broker 2; the cluster has the brokers 1.",
    ),
    "a state that changes": (
        "start = 0",
        "start = [0]",
        "a state of writer is not constant: unhashable type: 'list'.",
    ),
    "a ghost that changes": (
        "class WrittenOnce(Invariant):",
        "class WrittenOnce(Invariant):\n    start = []",
        "a ghost of WrittenOnce is not constant: unhashable type: 'list'.",
    ),
    "a state that cannot be encoded": (
        "start = 0",
        "start = object()",
        "a state or a ghost is not constant: Encoding objects of type object is unsupported.",
    ),
    "no such field of a response": (
        "response.responses",
        "response.topics",
        "counter.py:17: AttributeError: 'ProduceResponse' object has no attribute 'topics'.",
    ),
    "no such fault": (
        "lost=1",
        "losses=1",
        "counter.py:33: TypeError: Unexpected keyword argument 'losses'.",
    ),
    "not Python": ("if state == 2", "if state = 2", "counter.py:10: SyntaxError: invalid syntax."),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_model_is_one_line(mistake: str, tmp_path: Path) -> None:
    right, wrong, message = MISTAKES[mistake]
    file = tmp_path / "counter.py"
    text = COUNTER.replace("import requests", "import api, requests")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")

    done = CliRunner().invoke(app, ["explore", str(file)])

    assert isinstance(done.exception, UserError), done.output
    assert message in done.exception.message


WITHOUT_COORDINATOR = """
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Cluster, Model
from brokertwin.simulation.explore.machine import response_code

class One(Client):
    name, start = "one", 0
    def sends(self, state):
        return [] if state else [REQUEST]
    def receives(self, state, send, response):
        return int(response_code(response) == 0)

MODEL = Model(name="own", about="", clients=(One(),), cluster=Cluster(topics={"orders": 1}, LISTED))
"""


@pytest.mark.parametrize(
    ("request_text", "part", "listed"),
    [
        ('requests.init_producer_id("billing")', "transactional_ids", "billing"),
        ('requests.offset_commit("work", "orders", 0, 1)', "groups", "work"),
    ],
)
def test_a_search_without_coordinator_ends_and_names_what_is_not_listed(
    request_text: str, part: str, listed: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.py"
    text = WITHOUT_COORDINATOR.replace("REQUEST", request_text)
    file.write_text(text.replace("LISTED", ""), encoding="utf-8")
    without = run(str(file), "--states", "10")
    file.write_text(text.replace("LISTED", f"{part}=('{listed}',)"), encoding="utf-8")

    assert "in no order do all clients do what they wanted" in without
    assert f"because Cluster({part}=…) is empty" in without
    assert "no violation in any order" in (output := run(str(file)))
    assert "NOT_COORDINATOR" not in output


def test_another_broker_that_is_no_coordinator_blames_no_list(tmp_path: Path) -> None:
    sends = ", ".join(f'requests.init_producer_id("billing", broker={each})' for each in (1, 2))
    text = WITHOUT_COORDINATOR.replace("REQUEST", sends)
    file = tmp_path / "own.py"
    listed = "transactional_ids=('billing',), brokers=2"
    file.write_text(text.replace("LISTED", listed), encoding="utf-8")

    output = run(str(file))

    assert "16 NOT_COORDINATOR" in output
    assert "is empty" not in output


def test_a_mistake_in_a_worker_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "counter.py"
    file.write_text(COUNTER.replace("response.responses", "response.topics"), encoding="utf-8")

    done = CliRunner().invoke(app, ["explore", str(file), "--workers", "2"])

    assert isinstance(done.exception, UserError)
    assert "counter.py:17: AttributeError" in done.exception.message


def test_the_parts_of_a_model_have_documentation() -> None:
    assert "class Invariant" in pydoc.plain(pydoc.render_doc(api))


BLOCKS = re.findall(
    r"```console\n\$ brokertwin explore (.*?)```", PAGE_OF_OUTPUTS.read_text("utf-8"), re.DOTALL
)
"""The page's commands, each with its output."""


@pytest.mark.parametrize("block", BLOCKS)
def test_a_command_of_the_page_shows_the_output_of_the_page(
    block: str, kafka_broker: KafkaBroker
) -> None:
    words, *lines = block.splitlines()

    words = words.replace("localhost:9092", kafka_broker.bootstrap)
    output = run(*words.split(), code="--set" not in words)

    shown = iter(_without_times(output).splitlines())
    assert [line for line in lines if _without_times(line) not in shown] == []


def _without_times(text: str) -> str:
    text = re.sub(r"[\d.]+ CPU s \([\d,]+ deliveries/s\)", "CPU s", text)
    return re.sub(r" +[\d.]+ │ (?=no violation)", "", text)


def test_the_options_of_the_page_exist() -> None:
    text = PAGE_OF_OUTPUTS.read_text(encoding="utf-8") + PAGE_FOR_AUTHORS.read_text("utf-8")
    hints = get_type_hints(command, include_extras=True).values()
    given = [each for hint in hints for each in getattr(hint, "__metadata__", ())]
    known = {option for each in given for option in (each.default, *(each.param_decls or ()))}

    assert set(re.findall(r"`(--[a-z-]+)", text)) <= known


def test_the_names_of_the_page_for_authors_exist() -> None:
    text = PAGE_FOR_AUTHORS.read_text(encoding="utf-8")
    modules = (api, clients, invariants, models, requests)
    owners = [*modules, *(each for module in modules for each in vars(module).values())]
    known = {"view", *(name for each in owners for name in dir(each))}
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    spans = [span for cell in cells for span in re.findall(r"`(.*?)`", cell)]
    spans += re.findall(r"`(?:requests|clients)\.(\w+)", text)

    assert len(spans) > 50
    assert {re.split(r"[(=]", span)[0] for span in spans} - known == set()


def test_the_page_for_authors_has_the_signatures_of_requests_and_clients() -> None:
    text = PAGE_FOR_AUTHORS.read_text(encoding="utf-8")
    functions = [
        each
        for module in (requests, clients)
        for each in vars(module).values()
        if callable(each)
        and getattr(each, "__module__", "") == module.__name__
        and each.__name__[0] != "_"
        and (inspect.isfunction(each) or issubclass(each, api.Client))
    ]
    bare = {each.__name__: str(_without_types(inspect.signature(each))) for each in functions}

    assert len(bare) > 10
    assert [
        name for name, arguments in bare.items() if f"| `{name}{arguments}` |" not in text
    ] == []


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Signature.empty
    parameters = [each.replace(annotation=empty) for each in signature.parameters.values()]
    return inspect.Signature(parameters)


def test_explain_reads_the_recording(tmp_path: Path) -> None:
    file = tmp_path / "torn.jsonl"
    run(TORN, "--recording", str(file), code=1)

    done = CliRunner().invoke(app, ["explain", "transaction", "billing", str(file)])

    assert done.exit_code == 0, done.output
    assert "END_TXN" in done.output
    assert "commit" in done.output


def test_a_counterexample_with_several_brokers_is_not_played() -> None:
    output = run("truncation-to-hw", "--play", "localhost:1", code=1)

    assert "cannot be played by clients" in output


@pytest.mark.parametrize("name", [TORN, "late-produce-v1", "late-join", "static-owners"])
def test_the_fixture_does_what_the_model_does(name: str, kafka_broker: KafkaBroker) -> None:
    host, _, port = kafka_broker.bootstrap.rpartition(":")

    played = played_on(script_of(name), Address(host, int(port)))

    assert played.ended == ""
    assert [each for each in played.steps if not each.is_same] == []


def test_a_broker_that_does_otherwise_is_shown(kafka_broker: KafkaBroker) -> None:
    host, _, port = kafka_broker.bootstrap.rpartition(":")

    played = played_on(script_of("hanging-transaction"), Address(host, int(port)))

    (differs,) = [each for each in played.steps if not each.is_same]
    assert (differs.text, differs.broker) == ("Produce p0a", "48 INVALID_TXN_STATE")


def test_the_exported_test_passes(kafka_broker: KafkaBroker) -> None:
    names: dict[str, object] = {}
    exec(compile(as_pytest(script_of(TORN)), "exported", "exec"), names)

    names["test_torn_transaction_v1"](kafka_broker)  # type: ignore[operator]


def test_files_are_written(tmp_path: Path) -> None:
    svg, html, scenario = (tmp_path / name for name in ("a.svg", "a.html", "a.json"))

    run(TORN, "--svg", str(svg), "--html", str(html), "--scenario", str(scenario), code=1)

    assert svg.read_text(encoding="utf-8").startswith("<svg")
    assert "<svg" in html.read_text(encoding="utf-8")
    assert json.loads(scenario.read_text(encoding="utf-8"))["name"] == "torn_transaction_v1"
