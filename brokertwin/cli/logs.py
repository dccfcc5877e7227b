"""Logging to standard error with `log_format` and `log_level`, the same for all commands.

Standard error gets log lines (of the gateway and of `capture`), progress at level `info`, warnings
and errors. Format `console` is text, with colours if standard error is a terminal and NO_COLOR is
not set; `json` is one document a line. Spark's JVM and its Python workers write their own lines.

Levels are those of Python's loggers `brokertwin` and below. `configure` sets the first one, and
clients of a gateway can change them at run time (`gateway/admin/broker_loggers.py`).
"""

import logging
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from brokertwin.cli.visible import visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from structlog import PrintLogger
    from structlog.typing import Processor

    from brokertwin.settings import Settings

    Event = MutableMapping[str, Any]

LOGGER = "brokertwin"
"""The parent of all loggers of this project."""

_NAME = "logger_name"
BURST = 20
NAMES_MAX = 1000

Level = Literal["info", "warning", "error"]


class _Form:
    """Current format and level; the default before `configure` is text with all levels."""

    is_json = False
    least = logging.INFO


def configure(settings: "Settings") -> None:
    """Apply the settings' format and level; the last call wins."""
    import structlog

    _Form.is_json = settings.log_format == "json"
    _Form.least = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.getLogger(LOGGER).setLevel(_Form.least)
    common: list[Processor] = [
        _drop_below_level,
        _Flood(),
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*common, *(_for_programs() if _Form.is_json else _for_people())],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=_logger,
        cache_logger_on_first_use=False,
    )


def _logger(*names: str) -> "PrintLogger":
    """Return a logger for the current standard error, which a status line can redirect."""
    import structlog

    printer = structlog.PrintLogger(sys.stderr)
    is_ours = names and names[0].startswith(LOGGER)
    setattr(printer, _NAME, names[0] if is_ours else LOGGER)
    return printer


def _drop_below_level(logger: Any, method: str, event: "Event") -> "Event":
    import structlog

    name = getattr(logger, _NAME, LOGGER)
    level = structlog.processors.NAME_TO_LEVEL[method]
    if not logging.getLogger(name).isEnabledFor(level):
        raise structlog.DropEvent
    return event


class _Flood:
    """At most `BURST` equal warnings or errors at once, and one a second after that.

    The next line has the number of those that were left out. Thousands of clients that send
    garbage would otherwise fill a disk.
    """

    def __init__(self, clock: "Callable[[], float]" = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float, int]] = {}

    def __call__(self, logger: Any, method: str, event: "Event") -> "Event":
        """Drop an event, or add `left_out`."""
        import structlog

        if method not in ("warning", "error", "exception"):
            return event
        name, now = str(event["event"]), self._clock()
        free, since, dropped = self._left.get(name, (BURST, now, 0))
        free = min(free + now - since, BURST)
        if free < 1:
            self._left[name] = (free, now, dropped + 1)
            raise structlog.DropEvent
        self._left[name] = (free - 1, now, 0)
        if len(self._left) > NAMES_MAX:
            self._left.clear()
        return {**event, "left_out": dropped} if dropped else event


def _show_control_characters(_logger: Any, _method: str, event: "Event") -> "Event":
    """Escape control characters, which clients can put into names."""
    return {key: visible(each) if isinstance(each, str) else each for key, each in event.items()}


def _for_people() -> "list[Processor]":
    """Processors for text lines; tracebacks omit values, which can be secrets."""
    import structlog

    from brokertwin.cli.output import err

    return [
        _show_control_characters,
        structlog.dev.set_exc_info,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=err.color_system is not None and not err.no_color,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _for_programs() -> "list[Processor]":
    """Processors for JSON lines with UTC times; tracebacks omit values."""
    import structlog

    return [
        structlog.dev.set_exc_info,
        structlog.processors.format_exc_info,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _rendered,
    ]


def _rendered(logger: Any, method: str, event: "Event") -> str:
    import structlog

    renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    return visible_json(str(renderer(logger, method, event)))


def is_json() -> bool:
    return _Form.is_json


def shows(level: Level) -> bool:
    return logging.getLevelNamesMapping()[level.upper()] >= _Form.least


def write(level: Level, text: str, **fields: object) -> None:
    import structlog

    getattr(structlog.get_logger("brokertwin"), level)(text, **fields)
