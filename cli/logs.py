"""Standard error as `log_format` and `log_level` have it, the same for every command.

There go log lines (of the gateway and of `capture`) and what commands say: progress at the level
`info`, warnings, errors. In the form `console` they are for people, in colours where standard error
is a terminal and NO_COLOR is not set; as `json` each is one document on a line. Spark's JVM and its
Python workers write plain lines of their own.

Which lines are written follows the levels of Python's loggers `brokertwin` and below: `configure`
sets the first, and a gateway's clients may change them while it runs (`gateway/broker_loggers.py`).
"""

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog import PrintLogger
    from structlog.typing import Processor

    from brokertwin.settings import Settings

    Event = MutableMapping[str, Any]

LOGGER = "brokertwin"
"""The logger above all others here."""

_NAME = "logger_name"

Level = Literal["info", "warning", "error"]


class _Form:
    """What is in effect: before `configure` everything, for people."""

    is_json = False
    least = logging.INFO


def configure(settings: "Settings") -> None:
    """Write to standard error as the settings have it; the last call counts."""
    import structlog

    _Form.is_json = settings.log_format == "json"
    _Form.least = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.getLogger(LOGGER).setLevel(_Form.least)
    common: list[Processor] = [
        _drop_below_level,
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
    """Writes to standard error; it is looked up each time: a status line redirects it."""
    import structlog

    found = structlog.PrintLogger(sys.stderr)
    is_ours = names and names[0].startswith(LOGGER)
    setattr(found, _NAME, names[0] if is_ours else LOGGER)
    return found


def _drop_below_level(logger: Any, method: str, event: "Event") -> "Event":
    """Drops what is below the level of its logger."""
    import structlog

    name = getattr(logger, _NAME, LOGGER)
    level = structlog.processors.NAME_TO_LEVEL[method]
    if not logging.getLogger(name).isEnabledFor(level):
        raise structlog.DropEvent
    return event


def _for_people() -> "list[Processor]":
    """A line each; tracebacks without values, which may be secrets."""
    import structlog

    from brokertwin.cli.output import err

    return [
        structlog.dev.set_exc_info,
        structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
        structlog.dev.ConsoleRenderer(
            colors=err.color_system is not None and not err.no_color,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _for_programs() -> "list[Processor]":
    """A JSON document each, with UTC times; tracebacks as plain text, without values."""
    import structlog

    return [
        structlog.dev.set_exc_info,
        structlog.processors.format_exc_info,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]


def is_json() -> bool:
    """Whether lines are for programs."""
    return _Form.is_json


def shows(level: Level) -> bool:
    """Whether lines of a level are written."""
    return logging.getLevelNamesMapping()[level.upper()] >= _Form.least


def write(level: Level, text: str, **fields: object) -> None:
    """Write a log line."""
    import structlog

    getattr(structlog.get_logger("brokertwin"), level)(text, **fields)
