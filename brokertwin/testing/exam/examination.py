"""Plays all scenarios that apply to a broker, compares the results, and cleans up."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.testing.exam.cleaning import clean
from brokertwin.testing.exam.model import ExamSubject, Scenario
from brokertwin.testing.exam.player import Played, play
from brokertwin.testing.exam.rights import Rights, not_asked
from brokertwin.testing.exam.site import Site, look
from brokertwin.testing.exam.verdicts import Outcome, Result, VersionNote, judged, not_played
from brokertwin.wording import counted, some

PREFIX = "brokertwin-exam-"
"""Prefix of all names that an exam creates."""

JOBS = 4
INTERNAL = "__"
"""Prefix of Kafka's internal topics."""

Chosen = Sequence[tuple[ExamSubject, Scenario]]


class ExamOptions(NamedTuple):
    """Options of an exam.

    Attributes:
        jobs: number of scenarios in parallel.
        patience: factor for all time limits.
        notes: version notes that explain deviations.
        prefix: prefix of all names that the exam creates.
        is_read_only: play only scenarios that change nothing.
    """

    jobs: int = JOBS
    patience: float = 1.0
    notes: tuple[VersionNote, ...] = ()
    prefix: str = PREFIX
    rights: Rights = Rights.ADMIN
    is_read_only: bool = False


ALLOW = "Pass --read-only to create nothing, or --yes to run the exam here: it"


def check_is_empty(site: Site, prefix: str = PREFIX, allow: str = ALLOW) -> None:
    """Raise UserError if a cluster has other topics or groups; `allow` begins the hint."""
    topics = [name for name in site.topics if not name.startswith((prefix, INTERNAL))]
    groups = [name for name in site.groups if not name.startswith(prefix)]
    if topics or groups:
        raise UserError(
            f"The cluster already has {counted(len(topics), 'topic')} and"
            f" {counted(len(groups), 'group')}: {some([*topics, *groups], 3)}.",
            f"{allow} creates only names with the prefix {prefix}, but loads the brokers.",
        )


def examine(
    chosen: Chosen,
    site: Site,
    choices: ExamOptions | None = None,
    seen: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Examine a broker.

    Args:
        chosen: subjects and scenarios.
        site: the examined brokers.
        choices: how to run; default: `Choices()`.
        seen: called with each result.

    Returns:
        The results in the order of `chosen`.
    """
    choices = choices or ExamOptions()
    results: dict[str, Result] = {}

    def note(result: Result) -> None:
        results[result.scenario] = result
        seen(result)

    played = []
    for subject, scenario in chosen:
        if reason := site.missing(scenario):
            note(not_played(subject, scenario, Outcome.NOT_CLAIMED, reason))
        elif reason := site.other_settings(scenario):
            note(not_played(subject, scenario, Outcome.OTHER_SETTINGS, reason))
        elif reason := not_asked(scenario, choices.rights, choices.is_read_only):
            note(not_played(subject, scenario, Outcome.NOT_ASKED, reason))
        else:
            played.append((subject, scenario))
    for subject, scenario, shown in play_all(played, site, choices):
        is_user = choices.rights is Rights.USER
        note(judged(subject, scenario, shown, choices.notes, is_user))
    return [results[scenario.name] for _, scenario in chosen]


def play_alone(scenario: Scenario, address: Address) -> Played:
    """Play a scenario on a broker under names of its own, and delete these."""
    site = look(address, ())
    prefix = f"{PREFIX}{secrets.token_hex(3)}-"
    try:
        return play(scenario, site, prefix)
    finally:
        clean(site, prefix)


def play_all(
    chosen: Chosen, site: Site, choices: ExamOptions
) -> Iterator[tuple[ExamSubject, Scenario, Played]]:
    """Play scenarios, several at a time, and delete what they created."""
    run = f"{choices.prefix}{secrets.token_hex(3)}-"
    prefixes = {scenario.name: f"{run}{at:03d}-" for at, (_, scenario) in enumerate(chosen)}

    def played(each: tuple[ExamSubject, Scenario]) -> tuple[ExamSubject, Scenario, Played]:
        subject, scenario = each
        return subject, scenario, play(scenario, site, prefixes[scenario.name], choices.patience)

    try:
        with ThreadPoolExecutor(choices.jobs) as pool:
            yield from pool.map(played, [each for each in chosen if not each[1].is_alone])
        yield from map(played, [each for each in chosen if each[1].is_alone])
    finally:
        if not choices.is_read_only:
            clean(site, run)
