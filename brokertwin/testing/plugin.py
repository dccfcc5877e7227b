"""The pytest plugin: the fixture `kafka_broker` and its marker.

pytest loads it in every run, so it imports nothing before a test uses the fixture.

pytest rewrites the assertions of all modules of a distribution that registers a plugin. For the
modules of a broker this takes seconds, so they are imported without it (`_AsInstalled`).
"""

import inspect
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from brokertwin.testing.broker import KafkaBroker

MARKER = (
    "kafka_broker(brokers=1, topics=..., config=..., security_protocol=..., users=...,"
    " version=...): initial state of the fixture kafka_broker; topics: names, or a dict of names"
    " and partitions; config: Kafka's own broker settings; users: passwords by user, for SASL;"
    " version: Kafka release whose API versions are offered, such as 2.8"
)

KAFKA_PYTHON_WARNINGS = (
    r"ignore:(read|open)_text is deprecated:DeprecationWarning"
    r":(kafka\.protocol\.schemas\.load_json|importlib\.resources\._legacy)"
)
"""Filter of 218 warnings of kafka-python on Python 3.11, which a test's author cannot prevent."""

PACKAGE = "brokertwin."
THREAD = "thread"
EARLIER_S = 1.0
"""How long before the end of the process the last requests are shown, at most."""

_TIMER = pytest.StashKey[threading.Timer]()


class _AsInstalled:
    """Finds the modules of this package before pytest's finder, so that none is rewritten."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the plain spec of a module of this package, None for others."""
        return PathFinder.find_spec(name, path, target) if name.startswith(PACKAGE) else None


sys.meta_path.insert(0, _AsInstalled)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and hide the warnings that kafka-python causes when it is imported."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("filterwarnings", KAFKA_PYTHON_WARNINGS)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator["KafkaBroker"]:
    """A Kafka broker in this process, new for each test: `kafka_broker.bootstrap`.

    The marker `kafka_broker` sets its arguments. A test's marker overrides those of its class and
    module, argument by argument.
    """
    from brokertwin.errors import UserError
    from brokertwin.testing.broker import KafkaBroker

    arguments: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka_broker"))):
        parameters = inspect.signature(KafkaBroker).parameters
        wrong = [repr(value) for value in marker.args] + [
            k for k in marker.kwargs if k not in parameters
        ]
        if wrong:
            raise pytest.UsageError(
                f"unknown arguments of kafka_broker: {', '.join(wrong)}; it takes"
                f" {', '.join(f'{name}=…' for name in parameters)}"
            )
        arguments.update(marker.kwargs)
    try:
        broker = KafkaBroker(**arguments).start()
    except UserError as error:
        raise pytest.UsageError(f"kafka_broker: {error}") from None
    try:
        yield broker
    finally:
        broker.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Show the last requests of a failed test's brokers and proxies."""
    if call.excinfo is None or call.excinfo.typename == "Skipped":
        return
    for name, text in _transcripts(item):
        item.add_report_section(call.when, name, text)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[None]:
    """Show the last requests before pytest-timeout ends the process (method `thread`)."""
    if settings.method == THREAD and settings.timeout:
        after_s = max(settings.timeout - EARLIER_S, settings.timeout / 2)
        timer = threading.Timer(after_s, _print, [item])
        timer.daemon = True
        timer.start()
        item.stash[_TIMER] = timer
    return (yield)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> Iterator[None]:
    """Cancel the own timer, too."""
    if _TIMER in item.stash:
        item.stash[_TIMER].cancel()
    return (yield)


def _print(item: pytest.Item) -> None:
    for name, text in _transcripts(item):
        sys.stderr.write(f"{name}: the last requests before the timeout\n{text}\n")


def _transcripts(item: pytest.Item) -> list[tuple[str, str]]:
    """Return the names and last requests of the brokers and proxies among a test's fixtures."""
    verbs = sys.modules.get("brokertwin.testing.verbs")
    if verbs is None:
        return []
    from brokertwin.testing.transcript import transcript

    found = getattr(item, "funcargs", {}).items()
    brokers = {name: each for name, each in found if isinstance(each, verbs.FaultVerbs)}
    return [
        (name, transcript(each.requests())) for name, each in brokers.items() if each.is_running
    ]
