"""`brokertwin simulate`: clusters and clients in virtual time, with faults and audits."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from brokertwin.cli.files import check_new_folder
from brokertwin.cli.options import AsJson, Force
from brokertwin.cli.output import err, out, progress_bars, say, show_json, show_table
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.simulation.campaign import CampaignTally
    from brokertwin.simulation.plan import RunPlan

FAILED = 1
FAILED_SHOWN = 10
SEEDS = 100

Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of runs, one seed each.")]
First = Annotated[int, typer.Option("--first", min=0, help="First seed.")]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Run one seed; shrink a failing run.")
]
Trace = Annotated[bool, typer.Option("--trace", help="With --seed: print a line for each message.")]
Logs = Annotated[
    Path | None,
    typer.Option(
        "--logs",
        metavar="FOLDER",
        file_okay=False,
        help="With --seed: write the request logs of a cluster with accidents, and what happened.",
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
    logs: Logs = None,
    force: Force = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Test the broker model with clusters, clients, network and faults in virtual time.

    Each seed draws a cluster, its clients and faults. The state is checked after each event, and an
    auditor compares what clients observed with Kafka's guarantees. The same seed always gives the
    same run. Exits with code 1 if a run fails, or if a kind of fault or request was never drawn.
    """
    if seed is not None and logs is not None:
        check_new_folder(logs, force)
        _write(seed, logs)
    elif logs is not None:
        raise UserError("--logs requires --seed.", "Select one run: --seed 17 --logs logs.")
    elif seed is not None:
        _show_one(seed, trace, as_json)
    elif trace:
        raise UserError("--trace requires --seed.", "Select one run: --seed 17 --trace.")
    else:
        _show(_tally(range(first, first + seeds), workers), as_json)


def _tally(seeds: range, workers: int | None) -> "CampaignTally":
    from brokertwin.simulation.campaign import CampaignTally, results

    tally = CampaignTally()
    with progress_bars() as bar:
        task = bar.add_task("seeds", total=len(seeds))
        for result in results(seeds, workers):
            tally.add(result)
            bar.update(task, advance=1, description=f"seeds, {len(tally.failed)} failed")
            for violation in result.outcomes.violations[:1]:
                say(f"seed {result.seed}: {violation}")
    return tally


def _show(tally: "CampaignTally", as_json: bool) -> None:
    if as_json:
        show_json({**msgspec.to_builtins(tally, str_keys=True), "missing": tally.missing})
    else:
        show_table(["client", "count"], tally.roles.most_common())
        show_table(["effective fault", "count"], tally.faults.most_common())
        show_table(["request", "count"], tally.requests.most_common())
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


def _write(seed: int, folder: Path) -> None:
    """Write the request logs of a history and its truth."""
    from brokertwin.simulation.histories import draw_history, run_history
    from brokertwin.simulation.request_logs import write_logs
    from brokertwin.simulation.truth import write_truth

    history = run_history(draw_history(seed))
    folder.mkdir(parents=True, exist_ok=True)
    files = write_logs(history.lines, folder)
    write_truth(history.truth.facts, folder / "truth.jsonl")
    lines = sum(map(len, history.lines.values()))
    facts = counted(len(history.truth.facts), "fact")
    say(f"{folder}: {counted(lines, 'request')} in {counted(len(files), 'log')}, {facts}")


def _show_one(seed: int, trace: bool, as_json: bool) -> None:
    """Show one run; a failing one is reduced first."""
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


def _print(plan: "RunPlan", trace: list[str], violations: list[str]) -> None:
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
