"""Shared parts of commands that read recordings: broker settings, and sending to a job."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import Progress

from brokertwin.cli.output import out, say, warn
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.cli.job.send import Tally
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.kafka_io.placement import Placement
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.report import Compared
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.job.handover import Handover

PATIENCE_S = 180.0
"""Time without responses of a running job; its first micro-batch takes a while."""

UNKNOWN_PATIENCE_S = 30.0
"""The same if it is unknown whether a job runs, because its checkpoint is on another machine."""


LATER = "After it has run, compare with `brokertwin send --check` and the same files."


class Job(NamedTuple):
    settings: "Settings"
    client: "ClientProperties"
    placed: "Placement"


class SendResult(NamedTuple):
    """Result of sending a recording.

    Attributes:
        compared: responses that could be compared.
        missing: number of requests without a response.
        why: why there are no responses at all; empty if there are some.
    """

    compared: "Sequence[Compared]"
    missing: int
    why: str = ""

    @property
    def differing(self) -> int:
        """Number of responses that differ from the recorded ones."""
        from brokertwin.recordings.replay.comparison import FINE

        return sum(one.outcome.verdict not in FINE for one in self.compared)

    def as_json(self) -> dict[str, Any]:
        """The result as JSON; without responses it has no comparison."""
        if self.why:
            return {"responses": 0, "missing": self.missing, "why": self.why}
        return {
            "responses": len(self.compared),
            "differ": self.differing,
            "missing": self.missing,
        }

    def is_fine(self) -> bool:
        """True if every expected response exists and matches the recorded one."""
        return bool(self.why) or not (self.differing or self.missing)

    def show(self) -> None:
        """Print the number of different responses, and the first of them."""
        from brokertwin.recordings.replay import report

        if self.why:
            out.print(f"not compared: {self.why}", highlight=False, soft_wrap=True)
            return
        if self.differing:
            report.show_comparison(out, self.compared)
        line = f"{counted(len(self.compared), 'response')} compared, {self.differing:,} differ"
        if self.missing:
            line += f", {self.missing:,} missing"
        out.print(line, highlight=False)


def typed_settings_beside(files: Sequence[Path]) -> "BrokerSettings | None":
    """Return the checked settings beside a recording, or None. Raises UserError."""
    from brokertwin.cli.options import checked_broker_settings
    from brokertwin.recordings.replay.settings_beside import settings_beside

    found = settings_beside(files)
    return checked_broker_settings(found)[0] if found else None


def in_effect(settings: dict[str, str]) -> str:
    """Return the settings that the broker model uses, on one line."""
    from brokertwin.state.configs.broker_config import ACTED_ON

    shown = [f"{name}={value}" for name, value in sorted(settings.items()) if name in ACTED_ON]
    return ", ".join(shown) or "Kafka's defaults"


def hand_over(
    job: Job,
    history: "Recording",
    files: Sequence[Path],
    tally: "Tally",
    bar: Progress,
    is_waited: bool,
    pack: int,
) -> tuple["Handover", SendResult]:
    """Send a recording with its ids and wait for the job's responses.

    Raises:
        UserError: Kafka does not respond, or rejects the events.
    """
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.sinks.topic_writer import in_packs, write_all
    from brokertwin.streaming.job import handover

    prepared = _prepared(job, history, bar)
    _warn_of_what_differs(job, files)
    prefix = job.settings.prefix
    first = handover.ends(job.client, prefix)
    rows = list(prepared.rows())
    sent = bar.track(rows, description="sending")
    write_all(job.client, full_name(prefix, REQUESTS), in_packs(sent, pack))
    wanted = prepared.wanted()
    tally.sent += len(wanted)
    patience_s, why = _patience(job, is_waited)
    if not patience_s:
        return prepared, SendResult([], len(wanted), why)
    waiting = bar.add_task("waiting for responses", total=len(wanted))
    responses = handover.wait_for_responses(
        job.client,
        prefix,
        first,
        wanted,
        patience_s,
        lambda done: bar.update(waiting, completed=done),
    )
    if not responses and wanted:
        why = f"no job responded within {patience_s:.0f} s. {LATER}"
        return prepared, SendResult([], len(wanted), why)
    return prepared, SendResult(prepared.compared(responses), len(wanted) - len(responses))


def check_responses(job: Job, history: "Recording", bar: Progress) -> tuple["Handover", SendResult]:
    """Compare a job's responses so far with a recording that was sent before."""
    from brokertwin.streaming.job import handover

    prepared = _prepared(job, history, bar)
    responses = handover.all_responses(job.client, job.settings.prefix)
    wanted = prepared.wanted()
    found = {name: response for name, response in responses.items() if name in wanted}
    return prepared, SendResult(prepared.compared(found), len(wanted) - len(found))


def _prepared(job: Job, history: "Recording", bar: Progress) -> "Handover":
    from brokertwin.streaming.job import handover

    task = bar.add_task("finding the order", total=2 * len(history.events))
    prepared = handover.prepare(history, job.placed, lambda done: bar.update(task, completed=done))
    bar.update(task, total=1, completed=1)
    return prepared


def _patience(job: Job, is_waited: bool) -> tuple[float, str]:
    """Return the time to wait for a job, and why not to wait at all."""
    from brokertwin.streaming.checkpoint import facts

    if not is_waited:
        return 0, f"--no-wait was given. {LATER}"
    is_held = facts.is_held(job.settings.checkpoint_dir)
    if is_held is None:
        return UNKNOWN_PATIENCE_S, ""
    if is_held:
        return PATIENCE_S, ""
    return 0, f"no job is running with the checkpoint {job.settings.checkpoint_dir}. {LATER}"


def _warn_of_what_differs(job: Job, files: Sequence[Path]) -> None:
    """Warn about differences that will change the responses."""
    from brokertwin.streaming.job import handover

    if job.placed.event_time != handover.RECORDED:
        warn(
            "this job limits event times to the time of sending, so its responses can differ;"
            " start it with `brokertwin run --event-time recorded`"
        )
    recorded = typed_settings_beside(files)
    if recorded is None:
        return
    for name, (was, of_job) in handover.unlike(recorded, job.placed).items():
        warn(f"the recorded broker has {name}={was}, but the job has {of_job}")
    if handover.unlike(recorded, job.placed):
        say("start the job with --broker-config and the .properties file beside the recording")
