"""`brokertwin exam-client`: does a client keep Kafka's promises under faults?"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.broker.exam import Yes
from brokertwin.cli.files import check_new, write_text
from brokertwin.cli.options import Force, address
from brokertwin.cli.output import out, say
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.gateway.faults.fault import FaultSpec
    from brokertwin.testing.auditor.exam import Exam, Verdict

BROKEN, UNFINISHED = 1, 3
GROUP_PROTOCOLS = ("classic", "consumer")
WORKS = ("produce", "transact", "consume", "process", "share")
EVERYTHING = ",".join(WORKS[:3])

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND…",
        help="Adapter with its arguments. {bootstrap} becomes the address of the proxy.",
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help="A broker of a cluster; default: a gateway here.",
    ),
]
Plans = Annotated[int, typer.Option("--plans", min=1, help="Number of fault plans.")]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of the first plan; others follow.")
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="Play this fault file instead of seeds."),
]
Count = Annotated[int, typer.Option("--count", min=1, help="Records of the producer.")]
Works = Annotated[
    str, typer.Option("--work", metavar="WORK,…", help=f"Kinds of work: {', '.join(WORKS)}.")
]
Keep = Annotated[
    Path | None,
    typer.Option("--keep", metavar="DIR", help="Directory for failing plans; default: this one."),
]
TimeoutS = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", help="Seconds for each part of a run."),
]
GroupProtocol = Annotated[
    str, typer.Option("--group-protocol", help="`classic`, or `consumer` for KIP-848.")
]
Static = Annotated[
    bool, typer.Option("--static", help="Members have a group.instance.id, and one is replaced.")
]


def command(
    client: Command,
    broker: Broker = None,
    yes: Yes = False,
    plans: Plans = 5,
    seed: Seed = 1,
    plan: PlanFile = None,
    count: Count = 100,
    work: Works = EVERYTHING,
    keep: Keep = None,
    force: Force = False,
    timeout_s: TimeoutS = 60.0,
    group_protocol: GroupProtocol = "classic",
    static: Static = False,
) -> None:
    """Examine a client under faults: does it keep Kafka's promises?

    COMMAND is an *adapter*: a small program that produces, transacts or consumes with the client.
    It learns its work from variables EXAM_… and prints the client's results.

    The first run has no faults; it must succeed. Then each seed gives a fault plan for the proxy
    between client and broker: lost responses, cut connections, delays, retriable errors. A failing
    plan is shrunk and kept as a fault file, which `--plan` plays again.

    Promises: acknowledged records are in the log once and in order; transactions are atomic;
    commits do not go back; no partition has two owners; a fenced client stops sending; processed
    records are in the output once; share consumers accept the records that they received; every
    process ends without an error, because all trouble passes.

    A run counts only if it covers its subject: each reader has joined its group and read records,
    the zombie is fenced, and faults hit requests.

    Exit codes: 0 all promises kept, 1 a promise broken, 2 usage, 3 no promise broken, but a process
    did not finish in time, or the run did not cover its subject.
    """
    from brokertwin.gateway.faults import fault_file
    from brokertwin.testing.auditor.exam import Exam, examined_broker
    from brokertwin.testing.auditor.plans import faults_of
    from brokertwin.testing.auditor.workload import GroupKind, WorkKind

    if group_protocol not in GROUP_PROTOCOLS:
        raise UserError(
            f"Invalid --group-protocol: {group_protocol}.", f"Use {' or '.join(GROUP_PROTOCOLS)}."
        )
    unknown = sorted(set(work.split(",")) - set(WORKS))
    if unknown:
        raise UserError(f"Invalid --work: {unknown[0]}.", f"Use some of {', '.join(WORKS)}.")
    works = [WorkKind(each) for each in work.split(",")]
    if plan is not None:
        chosen = {plan.stem: fault_file.read(plan)}
    else:
        seeds = range(seed, seed + plans)
        chosen = {f"seed-{each}": faults_of(each, works) for each in seeds}
        files = {name: (keep or Path()) / f"exam-client-{name}.json" for name in chosen}
        for file in files.values():
            check_new(file, force)
    given = address("--bootstrap", broker) if broker is not None else None
    with examined_broker(broker, given, yes) as at:
        exam = Exam(at, client, works, count, timeout_s, GroupKind(group_protocol, static))
        if code := _show("calm", [], exam.run_calm()):
            raise typer.Exit(code)
        codes: set[int] = set()
        for name, faults in chosen.items():
            verdict = exam.run(faults)
            codes.add(_show(name, faults, verdict))
            if verdict.violations and plan is None:
                _keep(exam, faults, files[name])
    for code in (BROKEN, UNFINISHED):
        if code in codes:
            raise typer.Exit(code)


def _show(name: str, faults: "list[FaultSpec]", verdict: "Verdict") -> int:
    """Print a run; return its exit code."""
    from brokertwin.testing.auditor.exchanges import SHOWN

    facts = [
        counted(len(faults), "fault"),
        counted(verdict.hits, "hit"),
        counted(verdict.requests, "request"),
        f"{verdict.fenced} fenced",
    ]
    if verdict.read:
        read = ", ".join(f"{name} {count:,}" for name, count in verdict.read.items())
        facts += [counted(verdict.generations, "generation"), f"records read: {read}"]
    out.print(f"{name}: {', '.join(facts)}", highlight=False, soft_wrap=True)
    for promise, count in Counter(each.promise for each in verdict.violations).items():
        texts = [each.text for each in verdict.violations if each.promise == promise]
        more = [f"{count - SHOWN} more"] if count > SHOWN else []
        for text in (*texts[:SHOWN], *more):
            out.print(f"  broken: {promise}: {text}", highlight=False, markup=False)
    for text in verdict.unfinished:
        out.print(f"  not finished: {text}", highlight=False, markup=False)
    for text in verdict.uncovered:
        out.print(f"  nothing covered: {text}", highlight=False, markup=False)
    is_empty = verdict.unfinished or verdict.uncovered
    return BROKEN if verdict.violations else UNFINISHED if is_empty else 0


def _keep(exam: "Exam", faults: "list[FaultSpec]", path: Path) -> None:
    """Shrink a failing plan and write it to a file."""
    from brokertwin.gateway.faults import fault_file

    say(f"shrinking {len(faults)} faults")
    fewer = exam.shrunk(faults)
    write_text(path, fault_file.text_of(fewer))
    enough = f"{counted(len(fewer), 'fault')} {'is' if len(fewer) == 1 else 'are'} enough"
    out.print(f"  {enough}: --plan {path}", highlight=False, soft_wrap=True)
