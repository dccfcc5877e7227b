"""`brokertwin top`: status of a job, a live audit or a gateway on the terminal, read over HTTP."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from brokertwin.cli.job.live import size_text
from brokertwin.cli.options import AsJson
from brokertwin.cli.output import out
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.cli.watching.status import LiveIncident, Status
    from brokertwin.streaming.checkpoint.census import Census

DEFAULT = "127.0.0.1:9404"
TIMEOUT_S = 10.0
ROWS_MAX = 12
"""Maximum number of APIs, errors and partitions to show."""

Where = Annotated[str, typer.Argument(metavar="[HOST:PORT]", help="Its --http-listen address.")]
Once = Annotated[bool, typer.Option("--once", help="Print the status once and exit.")]
Interval = Annotated[
    float, typer.Option("--interval", min=0.2, metavar="SECONDS", help="Refresh interval.")
]
Counted = dict[tuple[str, ...], int]


def command(
    where: Where = DEFAULT, once: Once = False, interval: Interval = 2.0, as_json: AsJson = False
) -> None:
    """Watch a job, a live audit or a gateway: batch time, lag, rate, errors, groups, findings.

    It must have been started with --http-listen, which also serves this status as
    a web page. Ctrl-C ends the command. --json prints one line for each refresh: the document at
    /status.json.
    """
    if as_json:
        for body, _ in _looks(where, once, interval):
            typer.echo(body.decode())
    elif once or not out.is_terminal:
        for _, status in _looks(where, True, interval):
            out.print(screen(status))
    else:
        _live(where, interval)


def _live(where: str, interval: float) -> None:
    from rich.live import Live

    before: Status | None = None
    with Live(console=out, auto_refresh=False, screen=True) as live:
        for _, status in _looks(where, False, interval):
            live.update(screen(status, before), refresh=True)
            before = status


def _looks(where: str, once: bool, interval: float) -> "Iterator[tuple[bytes, Status]]":
    """Yield the document at each refresh until Ctrl-C. Raises UserError."""
    import msgspec

    from brokertwin.cli.watching.status import Status

    decoder = msgspec.json.Decoder(Status)
    url = where if "://" in where else f"http://{where}"
    try:
        while True:
            body = _fetched(f"{url.rstrip('/')}/status.json", where)
            try:
                yield body, decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise UserError(
                    f"{where} does not serve this version's /status.json: {error}.",
                    "Check that it is a brokertwin job, live audit or gateway of the same version.",
                ) from None
            if once:
                return
            time.sleep(interval)
    except KeyboardInterrupt:
        return


def _fetched(url: str, where: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            body: bytes = response.read()
            return body
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"Cannot reach {where}: {getattr(reason, 'strerror', None) or reason}.",
            "Start `brokertwin run`, `live` or `gateway` with --http-listen 9404.",
        ) from None


def screen(status: "Status", before: "Status | None" = None) -> RenderableType:
    """Format a document for the terminal; `before` is the previous one, to show growth."""
    parts = [_figures(status), *_traffic(status, before), *_state(status), *_live_parts(status)]
    return Group(_head(status), *(each for part in parts for each in ("", part)))


def _head(status: "Status") -> Text:
    colour = {"running": "green"}.get(status.phase, "yellow")
    text = Text.assemble(
        (f"{status.kind} {status.name}", "bold"), "  ", (status.phase, colour),
        f" since {_clock(status.started_ms)}, now {_clock(status.time_ms)}",
    )  # fmt: skip
    if status.gateway is not None:
        text.append(f", engine {status.gateway.engine}")
    return text


def _figures(status: "Status") -> Table:
    job, live, gateway = status.job, status.live, status.gateway
    values = {"rows/s" if gateway is None else "responses/s": f"{status.rate:,.1f}"}
    if job is not None:
        values |= {
            "batch": f"{job.batch}" if job.batch >= 0 else "-",
            "batch time": f"{job.batch_seconds:.2f} s",
            "ended": _clock(job.batch_time_ms) if job.batch >= 0 else "-",
            "lag": f"{job.lag:,}",
            "state": size_text(job.state_bytes),
            "dead letters": f"{sum(job.dead_letters.values()):,}",
        }
    if live is not None:
        values |= {
            "batch": f"{live.batch}" if live.batch >= 0 else "-",
            "batch time": f"{live.batch_seconds:.2f} s",
            "ended": _clock(live.batch_time_ms) if live.batch >= 0 else "-",
            "lag": f"{live.lag:,}",
            "exchanges": f"{live.counts.get('exchanges', 0):,}",
            "damaged lines": f"{live.counts.get('damaged', 0):,}",
        }
    if gateway is not None:
        values |= {
            "connections": f"{gateway.connections:,}",
            "pending": f"{gateway.waiting:,}",
            "failed logins": f"{gateway.failed_authentications:,}",
            "brokers": f"{len(gateway.brokers)}",
            "stopped": ", ".join(map(str, gateway.stopped)) or "none",
        }
    return _table(values, [list(values.values())])


def _traffic(status: "Status", before: "Status | None") -> Iterator[RenderableType]:
    responses = _single(status.responses)
    errors = _errors(status)
    was = before if before is not None and before.started_ms == status.started_ms else None
    former = _single(was.responses) if was else None
    if status.live is None:
        yield _counts(("API", "responses"), responses, former)
    if errors:
        yield _counts(("API", "error", "count"), errors, _errors(was) if was else None)
    if status.job is not None and status.job.dead_letters:
        yield _counts(("dead letter", "count"), _single(status.job.dead_letters), None)


def _live_parts(status: "Status") -> Iterator[RenderableType]:
    """Format counts of findings, and the newest incidents."""
    live = status.live
    if live is None:
        return
    if live.findings:
        found: Counted = {
            (each.kind, each.cluster, each.client): each.count for each in live.findings
        }
        yield _counts(("finding", "cluster", "client", "count"), found, None)
    if not live.incidents:
        yield Text("no findings")
        return
    rows = [
        [_clock(int(each.to)), each.cluster, f"{each.severity}, {_incident(each)}"]
        for each in live.incidents[:ROWS_MAX]
    ]
    yield _table(["newest", "cluster", "incident"], rows)


def _incident(of: "LiveIncident") -> str:
    since = _clock(int(of.begin))
    times = f" ({of.count} times since {since}, the last)" if of.count > 1 else ""
    also = f" Meanwhile: {', '.join(of.also)}." if of.also else ""
    return f"{of.subject}{times}: {of.what}{also}"


def _single(counts: Mapping[str, int]) -> Counted:
    return {(name,): number for name, number in counts.items()}


def _errors(status: "Status") -> Counted:
    return {
        (api, error): number
        for api, errors in status.errors.items()
        for error, number in errors.items()
    }


def _counts(columns: tuple[str, ...], counts: Counted, before: Counted | None) -> Table:
    """Format the largest counts and their growth."""
    shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS_MAX]
    rows = [
        [*names, f"{n:,}", *([f"+{n - before.get(names, 0):,}"] if before is not None else [])]
        for names, n in shown
    ]
    if len(counts) > ROWS_MAX:
        rows.append([f"… {len(counts) - ROWS_MAX} more"])
    return _table([*columns, *(["new"] if before is not None else [])], rows)


def _state(status: "Status") -> Iterator[RenderableType]:
    state = status.state
    if status.state_failure:
        yield Text(f"state: {status.state_failure}", style="yellow")
    if state is None:
        return
    values = {
        "groups": _by_state(state.groups),
        "sessions": f"{state.sessions:,}",
        "producers": f"{state.producers:,}",
        "transactional ids": _by_state(state.transactions),
        "pending requests": f"{state.waiting:,}",
    }
    yield _table(values, [list(values.values())])
    yield Text(
        f"{counted(state.partitions, 'partition')}, {state.under_replicated:,} under-replicated,"
        f" {state.offline:,} offline; state at {_clock(status.state_time_ms)}",
        style="red" if state.offline else "yellow" if state.under_replicated else "",
    )
    if state.shrunk:
        yield _shrunk(state)


def _shrunk(state: "Census") -> Table:
    rows = [
        [
            f"{each.topic}-{each.partition}",
            str(each.leader) if each.leader >= 0 else "none",
            ",".join(map(str, each.isr)),
            ",".join(map(str, each.replicas)),
        ]
        for each in state.shrunk[:ROWS_MAX]
    ]
    return _table(["partition", "leader", "ISR", "replicas"], rows)


def _by_state(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in numbers.items()) or "none"


def _clock(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))


def _table(columns: Iterable[str], rows: Iterable[list[str]]) -> Table:
    from rich import box

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for name in columns:
        is_number = name in {"responses", "count", "new"}
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
