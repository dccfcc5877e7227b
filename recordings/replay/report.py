"""What a replay says: a table by API, the first differences, the schedule, one last line.

For programs there is `documents.py`.
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

from brokertwin.recordings.replay.comparison import (
    AGREEING,
    FINE,
    LOST,
    Answer,
    Comparer,
    Difference,
    Outcome,
    Verdict,
)
from brokertwin.recordings.replay.earlier import Earlier
from brokertwin.recordings.replay.freedoms import Freedom, counted
from brokertwin.recordings.replay.recording import Broken, Exchange
from brokertwin.recordings.replay.schedule import Schedule
from brokertwin.recordings.replay.timing import TOLERANCES, Tolerances, slowest_ms
from brokertwin.recordings.replay.touched import chosen_answers, masked_answers
from brokertwin.state.core.errors import Error

DIFFERENCES_SHOWN = 10
"""Exchanges whose differences are printed."""

LINES_SHOWN = 8
"""Lines of one exchange's differences that are printed."""

RARE = (Verdict.SILENT, Verdict.LOST, Verdict.NOT_RECORDED)
"""Verdicts that have a column only where they are given."""

TIME = "responseTime"
"""The path of a difference in when an answer came."""

VALUE_CHARACTERS = 200
ERROR_NAMES = {int(error): error.name for error in Error}
BROKEN_SHOWN = 5


class Compared(NamedTuple):
    """One exchange, the machine's answer, and the verdict on it."""

    exchange: Exchange
    answer: Answer | None
    outcome: Outcome


def compare_all(
    exchanges: Sequence[Exchange],
    schedule: Schedule,
    answers: Mapping[str, Answer],
    apis: frozenset[str],
) -> list[Compared]:
    """The verdict on each exchange of the APIs named; on all where none is named.

    A lost request has no answer, as in the recording. The recorded answer long before, or after,
    the real broker had given it is a difference, too.
    """
    comparer = Comparer({exchange.id: exchange for exchange in exchanges})
    compared = []
    for exchange in exchanges:
        if apis and exchange.api not in apis:
            continue
        answer = answers.get(exchange.id)
        if exchange.id in schedule.lost:
            compared.append(Compared(exchange, None, LOST))
            continue
        outcome = comparer.compare(exchange.id, answer)
        if outcome.verdict not in FINE:
            compared.append(Compared(exchange, answer, outcome))
        elif exchange.id in schedule.ids:
            outcome = Outcome(Verdict.DIFFER, schedule.ids[exchange.id])
            compared.append(Compared(exchange, answer, outcome))
        elif exchange.id in schedule.unexplained:
            compared.append(Compared(exchange, answer, _untimely(exchange, answer)))
        else:
            used = outcome.used | schedule.used.get(exchange.id, frozenset())
            compared.append(Compared(exchange, answer, outcome._replace(used=used)))
    return compared


def _untimely(exchange: Exchange, answer: Answer | None) -> Outcome:
    """The difference of the recorded answer at another time; both in ms after the request."""
    given = None if answer is None else answer.response_time
    got = "later" if given is None else f"after {given - exchange.time} ms"
    expected = f"after {exchange.end - exchange.time} ms"
    return Outcome(Verdict.DIFFER, [Difference(TIME, expected, got)])


def counts_by_api(compared: Sequence[Compared]) -> dict[str, Counter[Verdict]]:
    """How often each verdict was given, by API, in the order of their names."""
    counts: dict[str, Counter[Verdict]] = defaultdict(Counter)
    for one in compared:
        counts[one.exchange.api][one.outcome.verdict] += 1
    return dict(sorted(counts.items()))


def agreeing(compared: Sequence[Compared]) -> int:
    """How many exchanges agree, those inside a batch included."""
    return sum(one.outcome.verdict in AGREEING for one in compared)


def is_fine(compared: Sequence[Compared]) -> bool:
    """Whether every exchange agrees, or has no answer that could be wrong."""
    return all(one.outcome.verdict in FINE for one in compared)


def show_summary(
    console: Console, exchanges: Sequence[Exchange], answers: Mapping[str, Answer]
) -> None:
    """Print how many requests were run and answered."""
    known = [answers[exchange.id] for exchange in exchanges if exchange.id in answers]
    refused = Counter(answer.error["reason"] for answer in known if answer.error is not None)
    text = f"{len(exchanges)} requests, {len(known) - refused.total()} answered"
    reasons = [f"{count} refused: {reason}" for reason, count in refused.most_common()]
    console.print(", ".join([text, *reasons]), highlight=False, soft_wrap=True)


def show_comparison(console: Console, compared: Sequence[Compared]) -> None:
    """Print the table by API and the first differences."""
    console.print(_table(compared))
    differing = [one for one in compared if one.outcome.verdict is Verdict.DIFFER]
    for one in differing[:DIFFERENCES_SHOWN]:
        for line in diff_lines(one):
            console.print(line, soft_wrap=True, highlight=False)
    if len(differing) > DIFFERENCES_SHOWN:
        console.print(
            f"... and {len(differing) - DIFFERENCES_SHOWN} more that differ (--out has them all)",
            highlight=False,
        )


def agreed_by(compared: Sequence[Compared]) -> list[frozenset[Freedom]]:
    """The freedoms that each exchange that agrees has used."""
    return [one.outcome.used for one in compared if one.outcome.verdict in AGREEING]


def show_touched(console: Console, compared: Sequence[Compared]) -> None:
    """Print how many answers have fields that are not compared, or ids that were taken over."""
    exchanges = [one.exchange for one in compared]
    for title, counts in (
        ("not compared", masked_answers(exchanges)),
        ("taken over", chosen_answers(exchanges)),
    ):
        parts = [f"{name} in {count} answers" for name, count in counts.items() if count]
        if parts:
            console.print(f"{title}: {', '.join(parts)}", highlight=False, soft_wrap=True)


def show_freedoms(console: Console, compared: Sequence[Compared]) -> None:
    """Print how many exchanges agree only because of which freedom; nothing where none does."""
    counts = {freedom: count for freedom, count in counted(agreed_by(compared)).items() if count}
    if counts:
        console.print("agree only because of a freedom (docs/comparison.md):", highlight=False)
    for freedom, count in counts.items():
        console.print(f"  {count:>5} {escape(freedom)}", highlight=False, soft_wrap=True)


def last_line(compared: Sequence[Compared]) -> str:
    """`agree A of N`, and how many of the others have no answer that could agree."""
    counts = Counter(one.outcome.verdict for one in compared)
    parts = [f"agree {agreeing(compared)} of {len(compared)}"]
    if counts[Verdict.SILENT]:
        parts.append(f"{counts[Verdict.SILENT]} say nothing (acks 0)")
    if counts[Verdict.LOST]:
        parts.append(f"{counts[Verdict.LOST]} lost with their connection")
    return ", ".join(parts)


def show_slowness(
    console: Console,
    exchanges: Sequence[Exchange],
    compared: Sequence[Compared],
    tolerances: Tolerances,
) -> None:
    """Where answers differ by their time, and the broker took long for others: say what helps."""
    is_untimely = any(
        difference.path == TIME for one in compared for difference in one.outcome.differences
    )
    slowest = slowest_ms(exchanges)
    if is_untimely and slowest > tolerances.early:
        factor = math.ceil(slowest / TOLERANCES.early)
        console.print(
            f"answers that wait for nothing took up to {slowest} ms; if the broker was as slow with"
            f" the others: --time-tolerance {factor}",
            highlight=False,
            soft_wrap=True,
        )


def show_last_line(console: Console, compared: Sequence[Compared]) -> None:
    """Print the last line."""
    console.print(last_line(compared), highlight=False, soft_wrap=True)


def show_schedule(console: Console, schedule: Schedule) -> None:
    """Print how the order of events differs from the order of arrival."""
    parts = [
        f"{len(schedule.queued)} requests queued behind an answer on their connection",
        f"{len(schedule.moved)} handled later than they arrived",
        f"{len(schedule.held)} waits ended later than they might have",
        f"{len(schedule.late)} changes of metadata read, or markers written, later",
        f"{len(schedule.lost)} requests with acks 0 lost with their connection",
        f"{len(schedule.resolves)} regular expressions resolved a moment sooner or later",
        f"{len(schedule.unexplained)} exchanges that no order explains",
    ]
    console.print("schedule: " + ", ".join(parts), highlight=False, soft_wrap=True)
    for title in ("moved", "held", "late", "lost"):
        ids: frozenset[str] = getattr(schedule, title)
        if ids:
            shown = sorted(ids)[:DIFFERENCES_SHOWN]
            more = f" ... and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
            console.print(
                f"  {title}: {escape(', '.join(shown))}{more}", highlight=False, soft_wrap=True
            )
    if schedule.is_exhausted:
        console.print("  the search for an order came to its limit", highlight=False)


def show_earlier(console: Console, earlier: Sequence[Earlier]) -> None:
    """Print what the broker was given because it had it before the recording began."""
    if earlier:
        about = ", ".join(request.about for request in earlier)
        console.print(f"before the recording: {about}", highlight=False, soft_wrap=True)


def show_left_out(console: Console, left_out: Mapping[str, int]) -> None:
    """Print how many lines are undamaged and yet no client's request."""
    for reason, count in left_out.items():
        console.print(f"{count} lines left out: {escape(reason)}", highlight=False, soft_wrap=True)


def show_broken(console: Console, broken: Sequence[Broken]) -> None:
    """Print how many lines could not be read, and the first reasons."""
    if broken:
        console.print(f"{len(broken)} lines could not be read:", highlight=False)
        for line in broken[:BROKEN_SHOWN]:
            console.print(f"  {escape(line.place)}: {escape(line.reason)}", highlight=False)


def diff_lines(one: Compared) -> Iterator[str]:
    """One exchange's differences, with rich markup."""
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
    """Kafka's name of an error code; None for what is no error code."""
    is_code = path.lower().endswith("errorcode") and type(value) is int
    return ERROR_NAMES.get(value) if is_code else None


def _named(path: str, value: Any) -> str:
    """A value as it is printed; an error code with its name."""
    name = error_name(path, value)
    return _short(value) if name is None else f"{value} {name}"


def _at(time: int) -> str:
    """A time in ms since 1970, in UTC."""
    at = datetime.fromtimestamp(time // 1000, UTC).replace(microsecond=time % 1000 * 1000)
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > VALUE_CHARACTERS:
        text = f"{text[:VALUE_CHARACTERS]}... ({len(text)} characters)"
    return escape(text)


def _table(compared: Sequence[Compared]) -> Table:
    columns = [Verdict.AGREE, Verdict.DIFFER, Verdict.UNSUPPORTED, Verdict.AGREE_INSIDE]
    given = {one.outcome.verdict for one in compared}
    columns += [verdict for verdict in RARE if verdict in given]
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
