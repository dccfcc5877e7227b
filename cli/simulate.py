"""`brokertwin simulate`: a cluster and its clients in virtual time, with faults, audited."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.progress import Progress

from brokertwin.cli.options import AsJson
from brokertwin.cli.output import err, out, say, show_json, show_table
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.simulation.campaign import Tally
    from brokertwin.simulation.plan import Plan

FAILED = 1
FAILED_SHOWN = 10
SEEDS = 100

Seeds = Annotated[int, typer.Option("--seeds", min=1, help="How many runs, one seed each.")]
First = Annotated[int, typer.Option("--first", min=0, help="The first seed.")]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="This run alone; where it fails, smaller.")
]
Trace = Annotated[
    bool, typer.Option("--trace", help="With --seed: print what happened, a line for each message.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; without, one for each core.")
]


def command(
    seeds: Seeds = SEEDS,
    first: First = 0,
    seed: Seed = None,
    trace: Trace = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Run whole clusters in virtual time: brokers, clients, network, micro-batches, and faults.

    Each seed draws a cluster, clients and faults. After each event the state is checked;
    an auditor holds what clients saw against what Kafka promises. The same seed gives the same run.

    The exit code is 1 where a run fails, or where a kind of fault or request was not drawn at all.
    """
    if seed is not None:
        _show_one(seed, trace, as_json)
    elif trace:
        raise UserError("--trace shows one run.", "Name it: --seed 17 --trace.")
    else:
        _show(_tally(range(first, first + seeds), workers), as_json)


def _tally(seeds: range, workers: int | None) -> "Tally":
    from brokertwin.simulation.campaign import Tally, results

    tally = Tally()
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("seeds", total=len(seeds))
        for result in results(seeds, workers):
            tally.add(result)
            bar.update(task, advance=1, description=f"seeds, {len(tally.failed)} failed")
            for violation in result.outcomes.violations[:1]:
                say(f"seed {result.seed}: {violation}")
    return tally


def _show(tally: "Tally", as_json: bool) -> None:
    if as_json:
        show_json({**msgspec.to_builtins(tally, str_keys=True), "missing": tally.missing})
    else:
        show_table(["clients", "drawn"], tally.roles.most_common())
        show_table(["faults", "with an effect"], tally.faults.most_common())
        show_table(["requests", "came to brokers"], tally.asked.most_common())
        show_table(["what came about", "how often"], tally.reached.most_common())
        seconds = tally.elapsed_ms // 1000
        out.print(
            f"{tally.seeds:,} seeds, {tally.events:,} events in {seconds:,} s of virtual time,"
            f" {tally.records:,} records acknowledged, {len(tally.failed)} seeds failed"
        )
        for kind in tally.missing:
            out.print(f"missing: {kind} was not drawn")
        for seed in islice(tally.failed, FAILED_SHOWN):
            out.print(f"look at one: brokertwin simulate --seed {seed} --trace")
    raise typer.Exit(FAILED if tally.failed or tally.missing else 0)


def _show_one(seed: int, trace: bool, as_json: bool) -> None:
    """Show one run; a failing one is reduced first."""
    from brokertwin.simulation.campaign import outcome_of
    from brokertwin.simulation.plan import draw
    from brokertwin.simulation.shrinking import shrink

    plan = msgspec.structs.replace(draw(seed), is_checked_whole=True)
    outcomes = outcome_of(plan)
    if outcomes.violations:
        with err.status(f"seed {seed} fails: looking for a smaller run"):
            plan = shrink(plan, lambda smaller: bool(outcome_of(smaller).violations))
    outcomes = outcome_of(plan, is_traced=trace)
    if as_json:
        document: dict[str, Any] = {"plan": plan, "violations": outcomes.violations}
        show_json(msgspec.to_builtins({**document, "trace": outcomes.trace}, str_keys=True))
    else:
        _print(plan, outcomes.trace, outcomes.violations)
        out.print(f"seed {seed}: {outcomes.events} events, {outcomes.elapsed_ms} ms", end="")
        out.print(", failed" if outcomes.violations else ", nothing is wrong")
    raise typer.Exit(FAILED if outcomes.violations else 0)


def _print(plan: "Plan", trace: list[str], violations: list[str]) -> None:
    order = ", any order between brokers" if plan.is_any_order else ""
    out.print(
        f"{plan.engine} engine, {plan.brokers} brokers in {plan.cells} cells,"
        f" {plan.partitions} partitions of each topic, transaction.version"
        f" {plan.transaction_version}, faults until {plan.active_ms} ms{order}"
    )
    for client in plan.clients:
        level = ", read_committed" if client.is_read_committed else ""
        out.print(f"  {client.name}: {client.role}{level}")
    for each in plan.injections:
        out.print(f"  {each.at_ms:>6} ms  {each.fault}, {each.lasts_ms} ms")
    for line in (*trace, *violations):
        out.print(line, soft_wrap=True, highlight=False, markup=False)
