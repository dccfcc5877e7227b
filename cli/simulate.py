"""`brokertwin simulate`: clusters and clients in virtual time, with faults and audits."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.progress import Progress

from brokertwin.cli.options import AsJson
from brokertwin.cli.output import err, out, say, show_json, show_table
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.simulation.campaign import Tally
    from brokertwin.simulation.plan import Plan
    from brokertwin.simulation.planting import Planted

FAILED = 1
FAILED_SHOWN = 10
SEEDS = 100

Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of runs, one seed each.")]
First = Annotated[int, typer.Option("--first", min=0, help="First seed.")]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Run one seed; shrink a failing run.")
]
Trace = Annotated[bool, typer.Option("--trace", help="With --seed: print a line for each message.")]
PlantedName = Annotated[
    str | None,
    typer.Option(
        "--planted",
        metavar="NAME",
        help="Break a rule of the model and count the seeds until a check finds it. `list` shows"
        " the rules, `all` tries each.",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; default: one for each core.")
]


def command(
    seeds: Seeds = SEEDS,
    first: First = 0,
    seed: Seed = None,
    trace: Trace = False,
    planted: PlantedName = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Test the broker model with clusters, clients, network and faults in virtual time.

    Each seed draws a cluster, its clients and faults. The state is checked after each event, and an
    auditor compares what clients observed with Kafka's guarantees. The same seed always gives the
    same run. Exits with code 1 if a run fails, or if a kind of fault or request was never drawn.
    """
    if planted == "list":
        _list(as_json)
        return
    broken = _planted(planted) if planted not in (None, "all") else None
    if seed is not None:
        _show_one(seed, trace, broken, as_json)
    elif trace:
        raise UserError("--trace requires --seed.", "Select one run: --seed 17 --trace.")
    elif planted is not None:
        _show_found(broken, range(first, first + seeds), workers, as_json)
    else:
        _show(_tally(range(first, first + seeds), workers), as_json)


def _planted(name: str | None) -> "Planted":
    from brokertwin.simulation.planted import PLANTED

    found = {each.name: each for each in PLANTED}
    if name not in found:
        raise UserError(
            f"Unknown rule in --planted: {name}.", "List the rules with --planted list."
        )
    return found[name]


def _list(as_json: bool) -> None:
    from brokertwin.simulation.planted import PLANTED

    if as_json:
        show_json([{"name": each.name, "rule": each.rule} for each in PLANTED])
    else:
        show_table(["name", "broken rule"], [(e.name, e.rule) for e in PLANTED])


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
        show_table(["client", "count"], tally.roles.most_common())
        show_table(["effective fault", "count"], tally.faults.most_common())
        show_table(["request", "count"], tally.asked.most_common())
        show_table(["event", "count"], tally.reached.most_common())
        seconds = tally.elapsed_ms // 1000
        out.print(
            f"{counted(tally.seeds, 'seed')}, {counted(tally.events, 'event')} in {seconds:,} s of"
            f" virtual time, {counted(tally.records, 'record')} acknowledged,"
            f" {counted(len(tally.failed), 'seed')} failed"
        )
        for kind in tally.missing:
            out.print(f"missing: {kind} was never drawn")
        for seed in islice(tally.failed, FAILED_SHOWN):
            out.print(f"show this run: brokertwin simulate --seed {seed} --trace")
    raise typer.Exit(FAILED if tally.failed or tally.missing else 0)


def _show_found(broken: "Planted | None", seeds: range, workers: int | None, as_json: bool) -> None:
    """Print the seeds until each broken rule is found; exits with code 1 if one is not found."""
    from brokertwin.simulation.campaign import found_after
    from brokertwin.simulation.planted import PLANTED

    wanted = [broken] if broken is not None else PLANTED
    rows = []
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=len(wanted))
        for each in wanted:
            bar.update(task, description=each.name)
            count, violation = found_after(each, seeds, workers)
            rows.append((each.name, each.rule, count, violation))
            bar.update(task, advance=1)
            if as_json:
                found = violation or None
                show_json({"name": each.name, "seeds": count, "found": found})
    if not as_json:
        show_table(
            ["name", "broken rule", "seeds", "found by"],
            [(name, rule, count, text or "not found") for name, rule, count, text in rows],
        )
        out.print(f"{sum(bool(text) for *_, text in rows)} of {len(rows)} found")
    raise typer.Exit(0 if all(text for *_, text in rows) else FAILED)


def _show_one(seed: int, trace: bool, broken: "Planted | None", as_json: bool) -> None:
    """Run one seed; shrink the run if it fails."""
    if broken is not None:
        from brokertwin.simulation.planting import plant

        plant(broken)
    from brokertwin.simulation.campaign import outcome_of
    from brokertwin.simulation.plan import draw
    from brokertwin.simulation.shrinking import shrink

    plan = msgspec.structs.replace(draw(seed), is_checked_whole=True)
    outcomes = outcome_of(plan)
    if outcomes.violations:
        with err.status(f"seed {seed} failed: searching for a smaller run"):
            plan = shrink(plan, lambda smaller: bool(outcome_of(smaller).violations))
    outcomes = outcome_of(plan, is_traced=trace)
    if as_json:
        document: dict[str, Any] = {"plan": plan, "violations": outcomes.violations}
        show_json(msgspec.to_builtins({**document, "trace": outcomes.trace}, str_keys=True))
    else:
        _print(plan, outcomes.trace, outcomes.violations)
        events = counted(outcomes.events, "event")
        out.print(f"seed {seed}: {events}, {outcomes.elapsed_ms} ms", end="")
        out.print(", failed" if outcomes.violations else ", ok")
    raise typer.Exit(FAILED if outcomes.violations else 0)


def _print(plan: "Plan", trace: list[str], violations: list[str]) -> None:
    order = ", any order between brokers" if plan.is_any_order else ""
    out.print(
        f"{plan.engine} engine, {counted(plan.brokers, 'broker')} in"
        f" {counted(plan.cells, 'cell')}, {counted(plan.partitions, 'partition')} per topic,"
        f" transaction.version {plan.transaction_version}, faults until {plan.active_ms} ms{order}"
    )
    for client in plan.clients:
        level = ", read_committed" if client.is_read_committed else ""
        out.print(f"  {client.name}: {client.role}{level}")
    for each in plan.injections:
        out.print(f"  {each.at_ms:>6} ms  {each.fault}, {each.lasts_ms} ms")
    for line in (*trace, *violations):
        out.print(line, soft_wrap=True, highlight=False, markup=False)
