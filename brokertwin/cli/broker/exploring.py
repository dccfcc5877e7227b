"""Parts of `brokertwin explore`: models from files, a real broker, exports, and reached rules."""

import contextlib
import importlib.util
import json
import secrets
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.protocol.errors import error_name

if TYPE_CHECKING:
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.simulation.explore.api import Model
    from brokertwin.simulation.explore.scripts import Script


def model_of(name: str) -> "Model":
    """Return a built-in model, or that of a file. Raises UserError."""
    from brokertwin.simulation.explore.api import Model
    from brokertwin.simulation.explore.mistakes import one_line
    from brokertwin.simulation.explore.models import built_in

    if not name.endswith(".py"):
        models = built_in()
        if name not in models:
            raise UserError(
                f"No built-in model is called {name!r}.",
                "See brokertwin explore --list, or pass a Python file with a MODEL.",
            )
        return models[name]
    file = Path(name)
    spec = importlib.util.spec_from_file_location(f"explored_{file.stem}", file)
    if spec is None or spec.loader is None or not file.exists():
        raise UserError(f"Cannot read the model {name}.", "Pass the path of a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = one_line(error, {str(file), str(file.resolve()), str(file.absolute())})
        raise UserError(f"Cannot read the model {name}: {line or repr(error)}.") from error
    model = getattr(module, "MODEL", None)
    if not isinstance(model, Model):
        raise UserError(
            f"{name} has no MODEL of the type Model.",
            "`python -m pydoc brokertwin.simulation.explore.api` describes it.",
        )
    return model


class PlayedStep(NamedTuple):
    """A step on a real broker: what the model and the broker return; None without a response."""

    text: str
    model: str
    broker: str | None

    @property
    def is_same(self) -> bool:
        """True if both return the same."""
        return self.model == self.broker


class PlayedScript(NamedTuple):
    """A counterexample on a real broker.

    Attributes:
        golden: normalized responses, for an exam scenario.
        ended: why the play stopped before its last step; empty if it did not.
    """

    steps: list[PlayedStep]
    golden: list[dict[str, Any]]
    ended: str

    @property
    def is_same(self) -> bool:
        """True if the broker returns what the model returns to all steps."""
        return not self.ended and all(each.is_same for each in self.steps)


def play(script: "Script", address: "Address") -> PlayedScript:
    """Send a counterexample to a real broker, under names of its own, and delete these."""
    from brokertwin.protocol.errors import error_codes
    from brokertwin.simulation.explore.scripts import given_partitions
    from brokertwin.testing.exam.cleaning import clean
    from brokertwin.testing.exam.examination import PREFIX
    from brokertwin.testing.exam.model import Scenario
    from brokertwin.testing.exam.player import play as play_scenario
    from brokertwin.testing.exam.site import look

    scenario = msgspec.convert(script.scenario, Scenario)
    site = look(address, ())
    prefix = f"{PREFIX}{secrets.token_hex(3)}-"
    try:
        played = play_scenario(scenario, site, prefix)
    finally:
        clean(site, prefix)
    outcomes: dict[str, str] = {}
    for observation, exchange in zip(played.observations, played.exchanges, strict=True):
        if exchange is None:
            continue
        if observation.label in script.committed:
            outcomes[observation.label] = ", ".join(_committed(exchange.response)) or "no record"
        else:
            outcomes[observation.label] = _returned(
                set(error_codes(exchange.response)), given_partitions(exchange.response)
            )
    steps = [
        PlayedStep(each.text, _returned(set(each.codes), each.given), outcomes.get(each.label))
        for each in script.called
    ]
    steps += [
        PlayedStep(label, ", ".join(names) or "no record", outcomes.get(label))
        for label, names in script.committed.items()
    ]
    golden = [msgspec.to_builtins(each) for each in played.observations]
    ended = f"{played.ended.step}: {played.ended.text}" if played.ended is not None else ""
    return PlayedScript(steps, golden, ended)


def _returned(codes: set[int], text: str) -> str:
    named = [f"{code} {error_name(code)}" for code in sorted(codes)] or ["0 NONE"]
    return ", ".join([*named, text] if text else named)


def _committed(response: Any) -> list[str]:
    """Return the values of the records that a read_committed consumer shows."""
    from brokertwin.testing.exam.batches import shown

    partition = response["responses"][0]["partitions"][0]
    begins = sorted(
        (each["firstOffset"], each["producerId"])
        for each in partition.get("abortedTransactions") or ()
    )
    aborted: set[int] = set()
    lines = []
    for batch in shown(partition["records"] or b""):
        while begins and begins[0][0] <= batch["lastOffset"]:
            aborted.add(begins.pop(0)[1])
        if "control" in batch["flags"]:
            if batch["records"] == ["ABORT"]:
                aborted.discard(batch["producerId"])
        elif not ("txn" in batch["flags"] and batch["producerId"] in aborted):
            lines += [record.partition(":")[2] for record in batch["records"]]
    return lines


def as_pytest(script: "Script") -> str:
    """Return a test that plays a counterexample on the fixture's broker."""
    name = script.scenario["name"]
    called = {each.label: list(each.codes) for each in script.called}
    return f'''"""{script.scenario["source"]}. Written by `brokertwin explore`."""

import json

import msgspec

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import error_codes
from brokertwin.testing.exam.model import Scenario
from brokertwin.testing.exam.player import play
from brokertwin.testing.exam.site import look

SCENARIO = json.loads(r"""{json.dumps(script.scenario)}""")
CODES = {called!r}


def test_{name}(kafka_broker):
    host, _, port = kafka_broker.bootstrap.rpartition(":")
    site = look(Address(host, int(port)), ())
    played = play(msgspec.convert(SCENARIO, Scenario), site, "explored-")

    assert played.ended is None
    returned = {{
        observed.label: sorted(set(error_codes(exchange.response)))
        for observed, exchange in zip(played.observations, played.exchanges, strict=True)
        if observed.label in CODES
    }}
    assert returned == CODES
'''


class Reached:
    """Functions of `state/` that were called; those of the same modules that were not."""

    def __init__(self) -> None:
        self._called: set[Any] = set()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        called = self._called

        def note(frame: Any, event: str, _argument: Any) -> None:
            if event == "call":
                called.add(frame.f_code)

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def missing(self) -> dict[str, list[str]]:
        """Return the functions that were not reached, by module."""
        by_file: dict[str, set[str]] = defaultdict(set)
        for code in self._called:
            if "/state/" in code.co_filename:
                by_file[code.co_filename].add(code.co_qualname)
        by_module = {}
        for file, reached in sorted(by_file.items()):
            module = compile(Path(file).read_text(encoding="utf-8"), file, "exec")
            names = {each for each in _functions(module) if "<" not in each}
            if missing := sorted(names - reached):
                by_module["state/" + file.rpartition("/state/")[2]] = missing
        return by_module


def _functions(code: Any) -> Iterator[str]:
    """Return the qualified names of the functions in a module's code."""
    for each in code.co_consts:
        if hasattr(each, "co_code"):
            is_class = "__qualname__" in each.co_names and "__module__" in each.co_names
            if not is_class:
                yield each.co_qualname
            yield from _functions(each)
