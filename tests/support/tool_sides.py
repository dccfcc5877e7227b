"""What Kafka's command-line tools print on a real broker and on a gateway, side by side."""

import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.kafka_tools import Printed, ToolProcess
from tests.support.tool_steps import CLASSES, Act, Clients, Difference, Step, line_of

LOOKS = re.compile(
    r"kafka-get-offsets\b|.* (--describe|--list|--verify|describe|list|find-hanging)\b"
)
LOOKED_FOR_S, AGAIN_S = 60, 0.2
"""How long both sides are looked at again that differ."""
Found = dict[str, list[str]]
ASIDE = [
    (r"\b20\d\d-\d\d-\d\d[ T][\d:,.]+Z?", "TIME"),
    (r"\b1[67]\d{11}\b", "TIME"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"""(?<![^\s"])(?=\S*[a-z])(?=\S*[A-Z])[\w+/-]{22}(?![^\s"])""", "ID"),
    (r"\b(localhost|127\.0\.0\.1)\b", "HOST"),
    (r"HOST(:| +)\d{5}\b", r"HOST\1PORT"),
    (r"KafkaTools\$Ended: ended\n", ""),
    (r"(?m)^\t(at|\.\.\.) .*\n", ""),
    (r"(?m)[ \t]+$", ""),
    (r"(?m)^(measurers +notes +\d+ +)\d+( +\d+ +)\d+", r"\1N\2N"),
    (r" {2,}", "  "),
    (r"-{3,}", "---"),
]
"""What no two brokers share: times, ids, addresses; the widths of columns, where Java was."""
MEASURED = {
    "kafka-producer-perf-test": r"(?<!^)\b\d+(\.\d+)?(?= )",
    "kafka-consumer-perf-test": r"\d+\.\d+|\b\d+, \d+(?=, \d+\.\d+, \S+$)",
    "kafka-e2e-latency": r"\d+(\.\d+)?(?= ms)|\t\d+\.\d+|= \d+",
    "kafka-verifiable-producer": r'(?<=throughput":)[\d.]+',
    "kafka-transactions find-hanging": r"(?<=\d\t)\d+$",
    "kafka-transactions describe --": r"(?<=\t)\d+(?= *\tnotes-0)",
    "kafka-log-dirs": r'(?<="size":)\d+',
    "kafka-metadata-quorum": r"(?<=HighWatermark:) *\d+|(?<=[\w-]{22}\t)\d+",
    "kafka-features describe": r"(?<=Epoch: )\d+",
}
"""Figures that come out otherwise each time."""


Aside = list[tuple[str, str]]


def plain(step: Step, printed: Printed, aside: Aside) -> list[str]:
    out = printed.out
    for start, pattern in MEASURED.items():
        if step.line.startswith(start):
            out = re.sub(rf"(?m){pattern}", "N", out)
    text = f"status {printed.status}\n{out}\nerr:\n{printed.err}"
    for pattern, word in [*aside, *ASIDE]:
        text = re.sub(pattern, word, text)
    lines = text.splitlines()
    return lines if step.is_ordered else sorted(line.strip() for line in lines)


class Side:
    """A broker and the output of the tools, by the step's number and line."""

    def __init__(
        self, bootstrap: str, java: ToolProcess, files: dict[str, Path], aside: Aside | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self._aside = aside or []
        self.found: dict[str, list[str]] = {}
        self._java, self._files = java, files
        self._clients = Clients(bootstrap)

    def take(self, number: int, step: Step | Act) -> None:
        if not isinstance(step, Step):
            step(self._clients)
            return
        name, *words = shlex.split(line_of(step, self._files, self._clients))
        where = ["--bootstrap-server", self.bootstrap]
        words = [*words, *where] if name == "kafka-cluster" else [*where, *words]
        printed = self._java.run(CLASSES[name], *words, text=step.text)
        self.found[f"{number}: {step.line}"] = plain(step, printed, self._aside)


def take_all(
    real: Side, ours: Side, steps: Sequence[Step | Act], differences: Sequence[Difference]
) -> None:
    """Take the steps on both sides; looking is tried again, as a broker learns of changes late."""
    with ThreadPoolExecutor() as pool:
        for number, step in enumerate(steps):
            deadline = time.monotonic() + LOOKED_FOR_S
            while True:
                list(pool.map(Side.take, (real, ours), (number, number), (step, step)))
                if not isinstance(step, Step) or not LOOKS.match(step.line):
                    break
                name = f"{number}: {step.line}"
                if not unexplained({name: real.found[name]}, {name: ours.found[name]}, differences):
                    break
                if time.monotonic() > deadline:
                    break
                time.sleep(AGAIN_S)


def differing(real: Found, ours: Found) -> Iterator[tuple[str, str]]:
    """The lines that only one of both prints, with the step; of those in another order all."""
    for step, lines in real.items():
        only = [(Counter(a) - Counter(b)) for a, b in ((lines, ours[step]), (ours[step], lines))]
        if lines != ours[step]:
            for line in [line.strip() for each in only for line in each] or lines:
                yield step, line


def explains(difference: Difference, step: str, line: str) -> bool:
    _, _, typed = step.partition(": ")
    return bool(re.match(difference.step, typed) and re.fullmatch(difference.lines, line))


def unexplained(real: Found, ours: Found, differences: Sequence[Difference]) -> list[str]:
    return [
        f"{step}: {line}"
        for step, line in differing(real, ours)
        if not any(explains(difference, step, line) for difference in differences)
    ]
