"""What commands share that take recordings: the settings beside a file, and sending it to a job."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import Progress

from brokertwin.cli.output import out, say, warn

if TYPE_CHECKING:
    from brokertwin.cli.send import Tally
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.kafka_io.placement import Placement
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.replay.handover import Handover
    from brokertwin.streaming.replay.recording import Recording
    from brokertwin.streaming.replay.report import Compared

PATIENCE_S = 180.0
"""How long a job that runs may be without news: its first micro-batch takes a while."""

UNKNOWN_PATIENCE_S = 30.0
"""The same where nothing here tells whether a job runs: its checkpoint is on another machine."""


LATER = "When it has run, `brokertwin send --check` with the same files compares its answers."


class Job(NamedTuple):
    """The job that a recording is sent to."""

    settings: "Settings"
    client: "ClientProperties"
    placed: "Placement"


class Told(NamedTuple):
    """What came of a recording.

    Attributes:
        compared: the answers that could be compared.
        missing: how many requests the job has not answered.
        why: why there are no answers at all; empty where there are some.
    """

    compared: "Sequence[Compared]"
    missing: int
    why: str = ""

    @property
    def differing(self) -> int:
        """How many answers are not the recorded ones."""
        from brokertwin.streaming.replay.comparison import FINE

        return sum(one.outcome.verdict not in FINE for one in self.compared)

    def as_json(self) -> dict[str, Any]:
        """The same for programs; without any answer nothing is said to agree or to differ."""
        if self.why:
            return {"answers": 0, "missing": self.missing, "why": self.why}
        return {
            "answers": len(self.compared),
            "differ": self.differing,
            "missing": self.missing,
        }

    def is_fine(self) -> bool:
        """Whether every answer that was waited for is there and is the recorded one."""
        return bool(self.why) or not (self.differing or self.missing)

    def show(self) -> None:
        """Print how many answers differ from the recording, and the first of them."""
        from brokertwin.streaming.replay import report

        if self.why:
            out.print(f"not compared: {self.why}", highlight=False, soft_wrap=True)
            return
        if self.differing:
            report.show_comparison(out, self.compared)
        line = f"answers: {len(self.compared)}, differ from the recording: {self.differing}"
        if self.missing:
            line += f", no answer: {self.missing}"
        out.print(line, highlight=False)


def typed_settings_beside(files: Sequence[Path]) -> "BrokerSettings | None":
    """The same, checked; None where there are none. Raises UserError."""
    from brokertwin.cli.options import checked_broker_settings
    from brokertwin.streaming.replay.settings_beside import settings_beside

    found = settings_beside(files)
    return checked_broker_settings(found)[0] if found else None


def in_effect(settings: dict[str, str]) -> str:
    """Those of the settings that the state machine acts on, in one line."""
    from brokertwin.state.configs.broker_config import ACTED_ON

    shown = [f"{name}={value}" for name, value in sorted(settings.items()) if name in ACTED_ON]
    return ", ".join(shown) or "none that differs from Kafka's defaults"


def hand_over(
    job: Job,
    history: "Recording",
    files: Sequence[Path],
    tally: "Tally",
    bar: Progress,
    is_waited: bool,
) -> tuple["Handover", Told]:
    """Send a recording, its ids kept, and wait for the job's answers.

    Raises:
        UserError: Kafka does not answer, or does not take the events.
    """
    from brokertwin.kafka_io.topic_writer import write_all
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.streaming.replay import handover

    prepared = _prepared(job, history, bar)
    _warn_of_what_differs(job, files)
    prefix = job.settings.prefix
    first = handover.ends(job.client, prefix)
    rows = list(prepared.rows())
    sending = bar.add_task("sending", total=len(rows))
    write_all(job.client, full_name(prefix, REQUESTS), rows, lambda: bar.advance(sending))
    wanted = prepared.wanted()
    tally.sent += len(wanted)
    patience_s, why = _patience(job, is_waited)
    if not patience_s:
        return prepared, Told([], len(wanted), why)
    waiting = bar.add_task("waiting for answers", total=len(wanted))
    answers = handover.wait_for_answers(
        job.client,
        prefix,
        first,
        wanted,
        patience_s,
        lambda done: bar.update(waiting, completed=done),
    )
    if not answers and wanted:
        why = f"no job has answered within {patience_s:.0f} s. {LATER}"
        return prepared, Told([], len(wanted), why)
    return prepared, Told(prepared.compared(answers), len(wanted) - len(answers))


def check_answers(job: Job, history: "Recording", bar: Progress) -> tuple["Handover", Told]:
    """Compare what a job has answered so far to a recording that was sent before."""
    from brokertwin.streaming.replay import handover

    prepared = _prepared(job, history, bar)
    answers = handover.all_answers(job.client, job.settings.prefix)
    wanted = prepared.wanted()
    found = {name: answer for name, answer in answers.items() if name in wanted}
    return prepared, Told(prepared.compared(found), len(wanted) - len(found))


def _prepared(job: Job, history: "Recording", bar: Progress) -> "Handover":
    from brokertwin.streaming.replay import handover

    task = bar.add_task("finding the order", total=2 * len(history.events))
    prepared = handover.prepare(history, job.placed, lambda done: bar.update(task, completed=done))
    bar.update(task, total=1, completed=1)
    return prepared


def _patience(job: Job, is_waited: bool) -> tuple[float, str]:
    """How long the job may be without news, and why it is not waited for at all."""
    from brokertwin.streaming import facts

    if not is_waited:
        return 0, f"--no-wait. {LATER}"
    is_held = facts.is_held(job.settings.checkpoint_dir)
    if is_held is None:
        return UNKNOWN_PATIENCE_S, ""
    if is_held:
        return PATIENCE_S, ""
    return 0, f"no job runs on the checkpoint {job.settings.checkpoint_dir}. {LATER}"


def _warn_of_what_differs(job: Job, files: Sequence[Path]) -> None:
    """Say before sending why the recording will not hold in this job."""
    from brokertwin.streaming.replay import handover

    if job.placed.event_time != handover.RECORDED:
        warn(
            "the job clamps times to when events come: a recording keeps its history only in one"
            " that was started with `brokertwin run --event-time recorded`"
        )
    recorded = typed_settings_beside(files)
    if recorded is None:
        return
    for name, (was, of_job) in handover.unlike(recorded, job.placed).items():
        warn(f"the recorded broker had {name}={was}, the job has {of_job}")
    if handover.unlike(recorded, job.placed):
        say("start the job with --broker-config and the file beside the recording")
