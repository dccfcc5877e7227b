"""`brokertwin explore`: every order of deliveries of a small model."""

import json
import signal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from brokertwin.cli.files import check_new, write_text
from brokertwin.cli.options import AsJson, Force
from brokertwin.cli.output import err, out, say, show_json, show_table, warn
from brokertwin.errors import UserError
from brokertwin.protocol.errors import error_name
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.simulation.explore.api import Model
    from brokertwin.simulation.explore.reached import Reached
    from brokertwin.simulation.explore.scripts import PlayedScript, Script
    from brokertwin.simulation.explore.search import Result
    from brokertwin.simulation.explore.shown import Story

VIOLATED = 1
MISSING_SHOWN = 20

ModelName = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help="A name of --list, or a Python file with a MODEL."),
]
Listed = Annotated[bool, typer.Option("--list", help="Print the built-in models.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another bound of a fault, `era`, or broker setting; late=1,2,3 prints a table.",
    ),
]
Depth = Annotated[int | None, typer.Option("--depth", min=1, help="Most steps of a path.")]
States = Annotated[int | None, typer.Option("--states", min=1, help="Most states to visit.")]
Seconds = Annotated[float | None, typer.Option("--time", min=0, help="Most seconds to search.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Number of processes.")]
NoReduction = Annotated[
    bool,
    typer.Option("--no-reduction", help="Search every step apart, and both orders of each pair."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--progress", metavar="FILE", help="Continue the search of FILE; update it."),
]
Walks = Annotated[
    int | None, typer.Option("--walk", metavar="N", min=1, help="Take N random walks instead.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the random walks.")]
Rules = Annotated[
    bool, typer.Option("--rules", help="Report functions of state/ that were never reached.")
]
Play = Annotated[
    str | None,
    typer.Option("--play", metavar="HOST:PORT", help="Send the counterexample to a real broker."),
]
Svg = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write the diagram.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page.")]
Pytest = Annotated[
    Path | None, typer.Option("--pytest", metavar="FILE", help="Write a test with kafka_broker.")
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        help="Write a scenario of exam as JSON; with --play, with the broker's responses.",
    ),
]
Recording = Annotated[
    Path | None,
    typer.Option("--recording", metavar="FILE", help="Write a recording for explain, as JSONL."),
]

SceneFile = Annotated[
    Path | None, typer.Option("--scene", metavar="FILE", help="Write a scene for the playground.")
]


def command(
    model: ModelName = None,
    listed: Listed = False,
    changes: Changes = None,
    depth: Depth = None,
    states: States = None,
    seconds: Seconds = None,
    workers: Workers = 1,
    no_reduction: NoReduction = False,
    checkpoint: Checkpoint = None,
    walks: Walks = None,
    seed: Seed = 0,
    rules: Rules = False,
    play: Play = None,
    svg: Svg = None,
    html: Html = None,
    pytest: Pytest = None,
    scenario: ScenarioFile = None,
    recording: Recording = None,
    scene: SceneFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Search every order of deliveries of a small model for a broken guarantee.

    The model's brokers are brokertwin's own rules of Kafka 4.3.1. The first counterexample found is
    one of the shortest. A search is bounded by the model's faults, and is no proof of Kafka.

    Exits with code 1 if an invariant is violated, and 2 if the model cannot be searched.
    """
    from brokertwin.simulation.explore.mistakes import ModelError, reported
    from brokertwin.simulation.explore.models import model_of
    from brokertwin.simulation.explore.shown import told

    if listed:
        _list()
        return
    if model is None:
        raise UserError("The model is missing.", "Pass a name of --list, or a Python file.")
    if rules and workers > 1:
        raise UserError("Cannot combine --rules with --workers.", "Calls are noted in one process.")
    of_search = depth, states, seconds is not None, no_reduction, checkpoint, rules, workers > 1
    if walks and any(of_search):
        raise UserError(
            "Cannot combine --walk with options of a search.",
            "Those are --depth, --states, --time, --workers, --no-reduction, --progress, --rules.",
        )
    if seed and not walks:
        raise UserError("--seed requires --walk.", "A search has no chance in it.")
    files = svg, html, pytest, scenario, recording, scene
    for file in files:
        check_new(file, force)
    chosen = model_of(model)
    options = _options(chosen, depth, states, seconds, workers, no_reduction, checkpoint)
    try:
        variants = _variants(chosen, changes or [])
        if len(variants) > 1:
            if rules or checkpoint or walks or any(files) or play:
                raise UserError("Several values print only a table.", "Pass one for each --set.")
            with reported(chosen):
                is_violated = _compare(variants, options, as_json)
            raise typer.Exit(VIOLATED if is_violated else 0)
        ((changed, chosen),) = variants
        with reported(chosen):
            if walks:
                result, reached = _walked(chosen, seed, walks), None
            else:
                result, reached = _searched(chosen, options, rules)
    except (ModelError, ValueError) as error:
        raise UserError(f"Cannot explore {chosen.name}: {error}.") from None
    story = told(chosen, result.path, result.violation) if result.violation else None
    if as_json:
        _show_json(changed, chosen, result, story)
    else:
        _show(chosen, result, story, reached)
    if story is not None:
        _write(story, svg, html, recording)
        _export(story, play, pytest, scenario, scene)
    raise typer.Exit(VIOLATED if story is not None else 0)


def _list() -> None:
    from brokertwin.simulation.explore.models import built_in

    rows = [
        (model.name, model.about, _bounds(model), model.expected or "none")
        for model in built_in().values()
    ]
    show_table(["model", "about", "bounds", "violates"], rows)


def _bounds(model: "Model") -> str:
    """Return how often each fault may happen, and the bounds of the search."""
    faults, bounds = model.faults, model.bounds
    counts = {name: getattr(faults, name) for name in faults.__struct_fields__}
    counts |= {"states": bounds.states, "depth": bounds.depth}
    named = [(name, count) for name, count in counts.items() if isinstance(count, int) and count]
    return ", ".join(f"{name} {count:,}" for name, count in named if name != "wait_ms")


def _options(
    model: "Model",
    depth: int | None,
    states: int | None,
    seconds: float | None,
    workers: int,
    no_reduction: bool,
    checkpoint: Path | None,
) -> Any:
    from brokertwin.simulation.explore.search import Options

    bounds = model.bounds
    return Options(
        depth=bounds.depth if depth is None else depth,
        states=bounds.states if states is None else states,
        seconds=bounds.seconds if seconds is None else seconds,
        workers=workers,
        is_split=no_reduction,
        has_sleep=not no_reduction,
        checkpoint=str(checkpoint or ""),
    )


def _variants(model: "Model", changes: list[str]) -> "list[tuple[dict[str, str], Model]]":
    """Return the model with each combination of the values of --set. Raises ValueError."""
    from brokertwin.simulation.explore.api import varied

    named = []
    for change in changes:
        name, _, values = change.partition("=")
        named.append([(name, value) for value in values.split(",")])
    variants = []
    for combination in product(*named):
        variant = model
        for name, value in combination:
            variant = varied(variant, name, value)
        variants.append((dict(combination), variant))
    return variants


def _compare(variants: "list[tuple[dict[str, str], Model]]", options: Any, as_json: bool) -> bool:
    """Search each variant and show how the states grow. Return whether one is violated."""
    from brokertwin.simulation.explore.shown import told

    rows, is_violated = [], False
    for changes, model in variants:
        result, _ = _searched(model, options, has_rules=False)
        is_violated |= bool(result.violation)
        if as_json:
            story = told(model, result.path, result.violation) if result.violation else None
            _show_json(changes, model, result, story)
        counts = (result.states, result.deliveries, result.depth, round(result.cpu_seconds, 1))
        name = ", ".join(f"{name} {value}" for name, value in changes.items())
        rows.append((name, *counts, _outcome(result)))
        if result.ended_by == "interrupt":
            break
    if not as_json:
        show_table(["set", "states", "deliveries", "depth", "CPU s", "result"], rows)
    return is_violated


def _searched(model: "Model", options: Any, has_rules: bool) -> "tuple[Result, Reached | None]":
    from brokertwin.simulation.explore.reached import Reached
    from brokertwin.simulation.explore.search import Search

    with err.status(f"{model.name}: searching") as status:

        def show(result: "Result", frontier: int) -> None:
            status.update(
                f"{model.name}: {counted(result.states, 'state')}, depth {result.depth},"
                f" {counted(result.deliveries, 'delivery', 'deliveries')}, {frontier:,} to expand"
            )

        search = Search(model, options, show)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if not has_rules:
                return search.run(), None
            reached = Reached()
            with reached.watch():
                return search.run(), reached
        finally:
            signal.signal(signal.SIGTERM, before)


def _walked(model: "Model", seed: int, walks: int) -> "Result":
    from brokertwin.simulation.explore.search import walk

    with err.status(f"{model.name}: walking"):
        return walk(model, seed, walks)


def _outcome(result: "Result") -> str:
    if result.violation:
        return f"violated in {counted(len(result.path), 'step')}: {result.violation}"
    if result.is_complete and not result.done:
        return "no violation, but in no order do all clients do what they wanted"
    if result.is_complete:
        return "no violation in any order"
    return f"no violation so far; ended by the bound: {result.ended_by}"


def _show(
    model: "Model", result: "Result", story: "Story | None", reached: "Reached | None"
) -> None:
    from brokertwin.simulation.explore.mistakes import without_coordinator
    from brokertwin.simulation.explore.shown import as_text

    rate = result.deliveries / max(result.cpu_seconds, 0.001)
    visited = counted(result.walks, "walk") if result.walks else counted(result.states, "state")
    out.print(
        f"{model.name}: {visited},"
        f" {counted(result.deliveries, 'delivery', 'deliveries')}, depth {result.depth},"
        f" {result.cpu_seconds:.1f} CPU s ({rate:,.0f} deliveries/s)"
    )
    out.print(_outcome(result), highlight=False, markup=False)
    if story is not None:
        out.print(as_text(story), soft_wrap=True, highlight=False, markup=False)
    rows = [
        (api, f"{code} {error_name(code)}", count)
        for (api, code), count in sorted(result.answered.items())
    ]
    show_table(["response to", "error", "count"], rows)
    show_table(["step", "count"], sorted(result.taken.items()))
    applied = [
        (name, "controller" if is_controllers else "broker", count)
        for (name, is_controllers), count in sorted(result.applied.items())
    ]
    show_table(["record", "of", "count"], applied)
    for name in without_coordinator(model.cluster, result.answered):
        out.print(
            f"16 NOT_COORDINATOR was returned because Cluster({name}=…) is empty: list those that"
            " the model uses",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    for module, names in (reached.missing() if reached is not None else {}).items():
        more = f" and {len(names) - MISSING_SHOWN} more" if len(names) > MISSING_SHOWN else ""
        text = f"never reached in {module}: {', '.join(names[:MISSING_SHOWN])}{more}"
        out.print(text, soft_wrap=True, highlight=False, markup=False)


def _show_json(
    changes: dict[str, str], model: "Model", result: "Result", story: "Story | None"
) -> None:
    from brokertwin.simulation.explore.scripts import recording

    show_json(
        {
            "model": model.name,
            "set": changes,
            "states": result.states,
            "walks": result.walks,
            "deliveries": result.deliveries,
            "depth": result.depth,
            "cpuSeconds": round(result.cpu_seconds, 2),
            "violation": result.violation,
            "isComplete": result.is_complete,
            "done": result.done,
            "endedBy": result.ended_by,
            "responses": [
                {"api": api, "errorCode": int(code), "count": count}
                for (api, code), count in sorted(result.answered.items())
            ],
            "exchanges": recording(story) if story is not None else [],
        }
    )


def _write(story: "Story", svg: Path | None, html: Path | None, recorded: Path | None) -> None:
    from brokertwin.simulation.explore.scripts import recording
    from brokertwin.simulation.explore.shown import as_html, as_svg

    if svg is not None:
        write_text(svg, as_svg(story))
    if html is not None:
        write_text(html, as_html(story))
    if recorded is not None:
        lines = (json.dumps(each) + "\n" for each in recording(story))
        write_text(recorded, "".join(lines))


def _export(
    story: "Story",
    broker: str | None,
    pytest: Path | None,
    scenario: Path | None,
    scene: Path | None,
) -> None:
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.simulation.explore.scenes import scene_of
    from brokertwin.simulation.explore.scripts import NotPlayableError, as_pytest, script

    if broker is None and pytest is None and scenario is None and scene is None:
        return
    try:
        written = script(story)
        if scene is not None:
            write_text(scene, json.dumps(scene_of(story), indent=1) + "\n")
    except NotPlayableError as error:
        warn(f"This counterexample cannot be played by clients: {error}.")
        return
    document = dict(written.scenario)
    if broker is not None:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdigit():
            raise UserError(f"{broker!r} is no address.", "Pass HOST:PORT, like localhost:9092.")
        say(f"sending {counted(len(written.called), 'request')} to {broker}")
        played = played_on(written, Address(host, int(port)))
        document["golden"] = played.golden
        _show_played(played)
    if pytest is not None:
        write_text(pytest, as_pytest(written))
    if scenario is not None:
        write_text(scenario, json.dumps(document, indent=1) + "\n")


def played_on(script: "Script", address: "Address") -> "PlayedScript":
    """Send a counterexample to a real broker, under names of its own, and delete these."""
    from brokertwin.protocol.errors import error_codes
    from brokertwin.simulation.explore import scripts
    from brokertwin.testing.exam.batches import committed_values
    from brokertwin.testing.exam.examination import play_alone
    from brokertwin.testing.exam.model import Scenario

    played = play_alone(msgspec.convert(script.scenario, Scenario), address)
    outcomes: dict[str, str] = {}
    for observation, exchange in zip(played.observations, played.exchanges, strict=True):
        if exchange is None:
            continue
        response = exchange.response
        if observation.label in script.committed:
            outcome = ", ".join(committed_values(response)) or scripts.NO_RECORD
        else:
            given = scripts.given_partitions(response)
            outcome = scripts.returned(error_codes(response), given)
        outcomes[observation.label] = outcome
    golden = [msgspec.to_builtins(each) for each in played.observations]
    ended = f"{played.ended.step}: {played.ended.text}" if played.ended is not None else ""
    return scripts.PlayedScript(scripts.compared(script, outcomes), golden, ended)


def _show_played(played: "PlayedScript") -> None:
    rows = [
        (each.text, each.model, each.broker or "no response", "yes" if each.is_same else "no")
        for each in played.steps
    ]
    show_table(["step", "model", "broker", "same"], rows)
    if played.is_same:
        out.print("the broker does the same")
    else:
        first = next((each.text for each in played.steps if not each.is_same), "the end")
        text = f": {played.ended}" if played.ended else ""
        out.print(f"the broker differs at {first}{text}", highlight=False, markup=False)
