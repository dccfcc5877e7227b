"""Prints the result of a replay: table by API, differences, schedule.

`documents.py` has the same for programs.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from brokertwin import wording
from brokertwin.protocol.errors import Error
from brokertwin.recordings.replay.comparison import (
    AGREEING,
    FINE,
    LOST,
    UNREADY,
    Comparer,
    CompareVerdict,
    ComparisonOutcome,
    FieldDifference,
    ModelResponse,
)
from brokertwin.recordings.replay.earlier import Earlier
from brokertwin.recordings.replay.freedoms import Freedom, counted
from brokertwin.recordings.replay.recording import Broken, Exchange
from brokertwin.recordings.replay.schedule import DeliverySchedule
from brokertwin.recordings.replay.timing import TOLERANCES, Tolerances, slowest_ms
from brokertwin.recordings.replay.touched import masked_responses, responses_with_choices

DIFFERENCES_SHOWN = 10
"""Maximum number of exchanges with printed differences."""

LINES_SHOWN = 8
"""Maximum number of printed differences of an exchange."""

RARE = (CompareVerdict.SILENT, CompareVerdict.LOST, CompareVerdict.NOT_RECORDED)
"""Verdicts that get a column only if they occur."""

TIME = "responseTime"
"""The path of a difference in the response time."""

VALUE_CHARACTERS = 200
ERROR_NAMES = {int(error): error.name for error in Error}
BROKEN_SHOWN = 5


class Compared(NamedTuple):
    """An exchange, the model's response, and the outcome."""

    exchange: Exchange
    response: ModelResponse | None
    outcome: ComparisonOutcome


def compare_all(
    exchanges: Sequence[Exchange],
    schedule: DeliverySchedule,
    responses: Mapping[str, ModelResponse],
    apis: frozenset[str],
) -> list[Compared]:
    """Compare each exchange of the given APIs, or all.

    A lost request has no response, as in the recording, or is refused, as there. A response far
    from its recorded time is a difference.
    """
    comparer = Comparer({exchange.id: exchange for exchange in exchanges})
    compared = []
    for exchange in exchanges:
        if apis and exchange.api not in apis:
            continue
        response = responses.get(exchange.id)
        if exchange.id in schedule.lost:
            outcome = LOST if exchange.response is None else UNREADY
            compared.append(Compared(exchange, None, outcome))
            continue
        outcome = comparer.compare(exchange.id, response)
        if outcome.verdict not in FINE:
            compared.append(Compared(exchange, response, outcome))
        elif exchange.id in schedule.ids:
            outcome = ComparisonOutcome(CompareVerdict.DIFFER, schedule.ids[exchange.id])
            compared.append(Compared(exchange, response, outcome))
        elif exchange.id in schedule.unexplained:
            compared.append(Compared(exchange, response, _untimely(exchange, response)))
        else:
            used = outcome.used | schedule.used.get(exchange.id, frozenset())
            compared.append(Compared(exchange, response, outcome._replace(used=used)))
    return compared


def _untimely(exchange: Exchange, response: ModelResponse | None) -> ComparisonOutcome:
    """The difference of a response at another time, in ms after the request."""
    response_time = None if response is None else response.response_time
    got = "later" if response_time is None else f"after {response_time - exchange.time} ms"
    expected = f"after {exchange.end - exchange.time} ms"
    return ComparisonOutcome(CompareVerdict.DIFFER, [FieldDifference(TIME, expected, got)])


def counts_by_api(compared: Sequence[Compared]) -> dict[str, Counter[CompareVerdict]]:
    """Count the verdicts by API, sorted by name."""
    counts: dict[str, Counter[CompareVerdict]] = defaultdict(Counter)
    for one in compared:
        counts[one.exchange.api][one.outcome.verdict] += 1
    return dict(sorted(counts.items()))


def agreeing(compared: Sequence[Compared]) -> int:
    """Number of exchanges that agree, inside a batch included."""
    return sum(one.outcome.verdict in AGREEING for one in compared)


def is_fine(compared: Sequence[Compared]) -> bool:
    """Whether every exchange agrees or has no response to compare."""
    return all(one.outcome.verdict in FINE for one in compared)


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def show_summary(
    console: Console, exchanges: Sequence[Exchange], responses: Mapping[str, ModelResponse]
) -> None:
    known = [responses[exchange.id] for exchange in exchanges if exchange.id in responses]
    refused = Counter(response.error["reason"] for response in known if response.error is not None)
    parts = [
        wording.counted(len(exchanges), "request"),
        wording.counted(len(known) - refused.total(), "response"),
        *(f"{count} refused: {reason}" for reason, count in refused.most_common()),
    ]
    _print(console, ", ".join(parts))


def show(
    console: Console,
    compared: Sequence[Compared],
    schedule: DeliverySchedule,
    earlier: Sequence[Earlier],
) -> None:
    """Print the comparison, and what was needed for it."""
    show_comparison(console, compared)
    show_earlier(console, earlier)
    show_schedule(console, schedule)
    show_touched(console, compared)
    show_freedoms(console, compared)
    show_last_line(console, compared)


def show_comparison(console: Console, compared: Sequence[Compared]) -> None:
    """Print the table by API and the first differences."""
    console.print(_table(compared))
    differing = [one for one in compared if one.outcome.verdict is CompareVerdict.DIFFER]
    for one in differing[:DIFFERENCES_SHOWN]:
        for line in diff_lines(one):
            _print(console, line)
    if len(differing) > DIFFERENCES_SHOWN:
        console.print(
            f"... and {len(differing) - DIFFERENCES_SHOWN} more that differ (--out has them all)",
            highlight=False,
        )


def agreed_by(compared: Sequence[Compared]) -> list[frozenset[Freedom]]:
    return [one.outcome.used for one in compared if one.outcome.verdict in AGREEING]


def show_touched(console: Console, compared: Sequence[Compared]) -> None:
    """Print the numbers of masked responses and taken ids."""
    exchanges = [one.exchange for one in compared]
    for title, counts in (
        ("not compared", masked_responses(exchanges)),
        ("taken over", responses_with_choices(exchanges)),
    ):
        parts = [
            f"{name} in {wording.counted(count, 'response')}"
            for name, count in counts.items()
            if count
        ]
        if parts:
            _print(console, f"{title}: {', '.join(parts)}")


def show_freedoms(console: Console, compared: Sequence[Compared]) -> None:
    """Print how many exchanges agree only because of each freedom."""
    counts = {freedom: count for freedom, count in counted(agreed_by(compared)).items() if count}
    if counts:
        console.print("agree only because of a freedom:", highlight=False)
    for freedom, count in counts.items():
        _print(console, f"  {count:>5} {escape(freedom)}")


def last_line(compared: Sequence[Compared]) -> str:
    """Return `agree A of N`, and the number of responses without a verdict."""
    counts = Counter(one.outcome.verdict for one in compared)
    parts = [f"agree {agreeing(compared)} of {len(compared)}"]
    if counts[CompareVerdict.SILENT]:
        parts.append(f"{counts[CompareVerdict.SILENT]} say nothing (acks 0)")
    if counts[CompareVerdict.LOST]:
        parts.append(f"{counts[CompareVerdict.LOST]} lost with their connection")
    return ", ".join(parts)


def show_slowness(
    console: Console,
    exchanges: Sequence[Exchange],
    compared: Sequence[Compared],
    tolerances: Tolerances,
) -> None:
    """Suggest a time tolerance if responses differ only in time."""
    is_untimely = any(
        difference.path == TIME for one in compared for difference in one.outcome.differences
    )
    slowest = slowest_ms(exchanges)
    if is_untimely and slowest > tolerances.early:
        factor = math.ceil(slowest / TOLERANCES.early)
        _print(
            console,
            f"responses without a wait took up to {slowest} ms; if the broker was as slow with"
            f" the others: --time-tolerance {factor}",
        )


def show_last_line(console: Console, compared: Sequence[Compared]) -> None:
    _print(console, last_line(compared))


def show_schedule(console: Console, schedule: DeliverySchedule) -> None:
    """Print how the order of events differs from arrival order."""
    moves = {
        "requests queued behind an earlier one on their connection": schedule.queued,
        "handled later than they arrived": schedule.moved,
        "long polls that ended late": schedule.held,
        "changes of metadata read, or markers written, later": schedule.late,
        "requests lost with their connection or before a log was open": schedule.lost,
        "regular expressions resolved a moment sooner or later": schedule.resolves,
        "exchanges that no order explains": schedule.unexplained,
    }
    parts = [f"{len(found)} {what}" for what, found in moves.items() if found]
    _print(console, f"schedule: {', '.join(parts) or 'in the order of arrival'}")
    for title in ("moved", "held", "late", "lost"):
        ids: frozenset[str] = getattr(schedule, title)
        if ids:
            shown = sorted(ids)[:DIFFERENCES_SHOWN]
            more = f" ... and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
            _print(console, f"  {title}: {escape(', '.join(shown))}{more}")
    if schedule.is_exhausted:
        console.print("  the search for an order came to its limit", highlight=False)


def show_earlier(console: Console, earlier: Sequence[Earlier]) -> None:
    if earlier:
        about = ", ".join(request.about for request in earlier)
        _print(console, f"before the recording: {about}")


def show_left_out(console: Console, left_out: Mapping[str, int]) -> None:
    for reason, count in left_out.items():
        _print(console, f"{wording.counted(count, 'line')} left out: {escape(reason)}")


def show_broken(console: Console, broken: Sequence[Broken]) -> None:
    """Print the number of unreadable lines, and the first reasons."""
    if broken:
        console.print(f"{wording.counted(len(broken), 'line')} could not be read:", highlight=False)
        for line in broken[:BROKEN_SHOWN]:
            console.print(f"  {escape(line.place)}: {escape(line.reason)}", highlight=False)


def diff_lines(one: Compared) -> Iterator[str]:
    """Yield the differences of an exchange, with rich markup."""
    exchange = one.exchange
    yield f"[bold]{escape(exchange.id)}[/bold] {escape(exchange.api)} v{exchange.version}"
    client = "no client id" if exchange.header.client_id is None else exchange.header.client_id
    yield escape(f"  {_at(exchange.time)}, client {client}, connection {exchange.connection}")
    yield f"  request {_short(msgspec.json.decode(exchange.request))}"
    for difference in one.outcome.differences[:LINES_SHOWN]:
        yield (
            f"  {escape(difference.path)}:"
            f" [green]expected {_named(difference.path, difference.expected)}[/green]"
            f" [red]got {_named(difference.path, difference.got)}[/red]"
        )
    more = len(one.outcome.differences) - LINES_SHOWN
    if more > 0:
        yield f"  ... and {more} more differences"


def error_name(path: str, value: Any) -> str | None:
    """Kafka's name of an error code; None for other values."""
    is_code = path.lower().endswith("errorcode") and type(value) is int
    return ERROR_NAMES.get(value) if is_code else None


def _named(path: str, value: Any) -> str:
    """Format a value; an error code with its name."""
    name = error_name(path, value)
    return _short(value) if name is None else f"{value} {name}"


def _at(time: int) -> str:
    """Format a time in ms since 1970, in UTC."""
    at = datetime.fromtimestamp(time // 1000, UTC).replace(microsecond=time % 1000 * 1000)
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > VALUE_CHARACTERS:
        text = f"{text[:VALUE_CHARACTERS]}... ({len(text)} characters)"
    return escape(text)


def _table(compared: Sequence[Compared]) -> Table:
    columns = [
        CompareVerdict.AGREE,
        CompareVerdict.DIFFER,
        CompareVerdict.UNSUPPORTED,
        CompareVerdict.AGREE_INSIDE,
    ]
    verdicts = {one.outcome.verdict for one in compared}
    columns += [verdict for verdict in RARE if verdict in verdicts]
    table = Table(show_footer=True, box=box.SIMPLE)
    table.add_column("API", "all", no_wrap=True)
    table.add_column("exchanges", str(len(compared)), justify="right", no_wrap=True)
    totals = Counter(one.outcome.verdict for one in compared)
    for verdict in columns:
        is_one_word = " " not in verdict
        table.add_column(str(verdict), str(totals[verdict]), justify="right", no_wrap=is_one_word)
    for api, counts in counts_by_api(compared).items():
        cells = [str(counts[verdict] or "") for verdict in columns]
        table.add_row(escape(api), str(counts.total()), *cells)
    return table
