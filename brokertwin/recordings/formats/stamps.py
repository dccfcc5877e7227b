"""Times in the formats of log layouts and log agents."""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from brokertwin.patterns import later

HOUR_MS = 60 * 60 * 1000
SECONDS = range(946_684_800, 2_147_000_000)
"""Accepted seconds since 1970: from 2000 to 2037. Greater ones are node ids of coordinators."""

TEXT_BYTES_MAX = 2_000
"""Length of text at both ends that is searched for times."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

ZONES_H = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2,
    "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12,
    "NZDT": 13, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
    "PDT": -7,
}  # fmt: skip
"""Offsets of zone abbreviations in hours; ambiguous ones are US zones."""

_CLOCK = (
    rb"(?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?(?: ?(?P<half>[AaPp])[Mm]\b)?"
)
_COMPACT_CLOCK = rb"T?(?P<h>\d\d)(?P<m>\d\d)(?P<s>\d\d)[.,]?(?P<f>\d{3})?(?P<half>)(?!\d)"
_ZONE = (
    rb"(?:[ \[(]{0,2}(?P<zone>(?:GMT|UTC)?[+-]\d\d(?::?\d\d)?(?![\d:-])|Z\b"
    rb"|[A-Z][a-z]+/[A-Z][A-Za-z_]+|(?:[A-Z]{2,4}T|UTC|MSK|MEZ|MESZ)\b))?"
)
_DATES = (
    rb"(?P<y>\d{4})(?P<sep>[-/.])(?P<mo>\d\d)(?P=sep)(?P<d>\d\d)(?:[ T_]|, )" + _CLOCK,
    rb"(?P<y>\d{4})(?P<sep>)(?P<mo>\d\d)(?P<d>\d\d)" + _COMPACT_CLOCK,
    rb"(?<!\w)[DIWEF](?P<y>\d{4}|\d\d|)(?P<sep>)(?P<mo>\d\d)(?P<d>\d\d) " + _CLOCK,
    rb"(?P<d>\d{1,2})(?P<sep>[-/. ])(?P<mo>\d{1,2}|[A-Za-z]{3})(?P=sep)(?P<y>\d{4}|\d\d)"
    rb"[ :T,@]{1,3}" + _CLOCK,
    rb"(?P<sep>)\b(?P<mo>[A-Z][a-z]{2})[a-z]*\.? {1,2}(?P<d>\d{1,2})(?:,? (?P<y>\d{4}))?[ ,@]{1,3}"
    + _CLOCK,
)
_FORMS = [later(rb"(?<![\d.])" + date + _ZONE + rb"(?P<late>(?: \d{4}\b)?)") for date in _DATES]
_KAFKAS = later(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] [A-Z]{4,5} ")
"""The prefix in Kafka's default layout, parsed faster."""

_EPOCH = later(rb"(?<![\w.:/-])\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?![\w:/-])")
_EPOCH_DIGITS = (10, 13, 16, 19)
_PARTS = later(rb"epochSecond\W{1,4}(\d{10})\W{1,8}nanoOfSecond\W{1,4}(\d{1,9})(?!\d)")
"""Log4j's `instant` in XML."""

_AMBIGUOUS = later(
    rb"(?<![\d.])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)[ :T,@]{1,3}(?=\d{1,2}:\d\d:\d\d)"
)
AGE_MAX = timedelta(days=3650)
"""A log is not expected to be older."""

_START = datetime(1970, 1, 1)  # noqa: DTZ001
_MS = timedelta(milliseconds=1)


class DateOrder(StrEnum):
    MONTH_FIRST = "month first"
    DAY_FIRST = "day first"
    YEAR_FIRST = "year first"


class Stamp(NamedTuple):
    """A time in a text or field.

    Attributes:
        local_ms: date and time in ms, as if in UTC.
        unit_ms: precision: 1, or 1000 without a fraction.
        offset_ms: zone offset; None if unknown or missing.
        readings: of a date such as `05/06/26`, the time in each order in which it is a date; empty
            for a date that begins with four digits or has the month's name.
    """

    local_ms: int
    unit_ms: int
    offset_ms: int | None
    unknown_zone: str = ""
    readings: "tuple[tuple[DateOrder, Stamp], ...]" = ()


def stamps(text: bytes) -> list[Stamp]:
    """Return the times in a text, in order."""
    kafkas = _KAFKAS.fullmatch(text)
    if kafkas is not None:
        with suppress(ValueError):
            local = datetime.fromisoformat(kafkas[1].decode("ascii"))
            return [Stamp((local - _START) // _MS + int(kafkas[2]), 1, None)]
    if len(text) > 2 * TEXT_BYTES_MAX:
        text = text[:TEXT_BYTES_MAX] + b"\n" + text[-TEXT_BYTES_MAX:]
    found: list[tuple[int, int, Stamp]] = []
    for form in _FORMS:
        for match in form.finditer(text):
            is_taken = any(a < match.end() and match.start() < b for a, b, _ in found)
            stamp = None if is_taken else _stamp(match)
            if stamp is not None:
                found.append((match.start(), match.end(), stamp))
    numbers = [(match, b"%b.%09d" % (match[1], int(match[2]))) for match in _PARTS.finditer(text)]
    numbers += [(match, match[0]) for match in _EPOCH.finditer(text)]
    for match, number in numbers:
        stamp = _of_number(number.decode("ascii"))
        if stamp is not None:
            found.append((match.start(), match.end(), stamp))
    return [stamp for _, _, stamp in sorted(found)]


def stamp_of(value: Any) -> Stamp | None:
    """Parse the time in a field: text, number since 1970, or an object.

    Numbers are s, ms, us or ns.
    """
    if isinstance(value, dict):
        return _of_parts(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _of_number(repr(value))
    if not isinstance(value, str) or len(value) > TEXT_BYTES_MAX:
        return None
    return _of_number(value) or next(iter(stamps(value.encode("utf-8", "replace"))), None)


def _of_parts(value: dict[str, Any]) -> Stamp | None:
    """Parse seconds and nanoseconds (Log4j's `instant`), or the first time."""
    parts = {name.lower(): part for name, part in value.items()}
    seconds = next((part for name, part in parts.items() if "second" in name), None)
    nanos = next((part for name, part in parts.items() if "nano" in name), 0)
    if isinstance(seconds, int | str) and isinstance(nanos, int):
        return _of_number(f"{seconds}.{nanos:09d}")
    return next((stamp for stamp in map(stamp_of, value.values()) if stamp is not None), None)


def _of_number(text: str) -> Stamp | None:
    whole, _, fraction = text.partition(".")
    is_known = len(whole) in _EPOCH_DIGITS and whole.isdecimal() and whole.isascii()
    if not is_known or int(whole[:10]) not in SECONDS or not (fraction or "0").isdecimal():
        return None
    digits = whole[10:] + fraction
    ms = int(whole[:10]) * 1000 + int(digits.ljust(3, "0")[:3])
    return Stamp(ms, 1 if digits else 1000, 0)


class OrderFound(NamedTuple):
    """The order of a file's dates.

    Attributes:
        order: the order in which the dates are most likely.
        example: one of them, as in the file.
        is_shown: whether the dates show it. Otherwise it is the one of the newest dates.
        is_in_future: whether the dates are in the future even so.
    """

    order: DateOrder
    example: str = ""
    is_shown: bool = True
    is_in_future: bool = False


def order_of_dates(texts: Iterable[bytes], now: datetime | None = None) -> OrderFound:
    """Find the order of the numbers in dates such as `05/06/2026` and `26/11/28`.

    In the right order they are dates, are not in the future, go back less often and cover less
    time.
    """
    now = now or datetime.now(UTC)
    examples = dict.fromkeys(
        match.groups() for text in texts for match in _AMBIGUOUS.finditer(text)
    )
    likely: dict[tuple[datetime, ...], DateOrder] = {}
    for order in DateOrder:
        with suppress(ValueError):
            dates = tuple(datetime(*_in_order(order, *date), tzinfo=UTC) for date in examples)
            likely.setdefault(dates, order)
    if not likely or not examples:
        return OrderFound(DateOrder.MONTH_FIRST)
    scored = sorted(
        ((_strangeness(dates, now), order) for dates, order in likely.items()),
        key=lambda each: each[0],
    )
    (likeliest, order), *others = scored
    first, sep, second, year = (part.decode() for part in next(iter(examples)))
    return OrderFound(
        order,
        sep.join((first, second, year)),
        all(other[:-1] != likeliest[:-1] for other, _ in others),
        likeliest[0],
    )


def _strangeness(
    dates: tuple[datetime, ...], now: datetime
) -> tuple[bool, bool, int, timedelta, int]:
    """How unlikely these dates of a log are: in the future, old, out of order, far apart."""
    is_in_future = any(date > now + timedelta(days=1) for date in dates)
    steps_back = sum(later < earlier for earlier, later in pairwise(dates))
    span = max(dates) - min(dates)
    is_old = max(dates) < now - AGE_MAX
    return is_in_future, is_old, steps_back, span, now.year - max(dates).year


def _in_order(
    order: DateOrder, first: bytes, sep: bytes, second: bytes, third: bytes
) -> tuple[int, int, int]:
    """Year, month and day of a date. Raises ValueError: no log has a date in this order."""
    if order is DateOrder.YEAR_FIRST:
        if len(first) != 2 or len(third) != 2:
            raise ValueError(order)
        return 2000 + int(first), int(second), int(third)
    if order is DateOrder.MONTH_FIRST and sep == b".":
        raise ValueError(order)
    year = int(third) + (2000 if len(third) == 2 else 0)
    is_day_first = order is DateOrder.DAY_FIRST
    return (year, int(second), int(first)) if is_day_first else (year, int(first), int(second))


def _stamp(match: re.Match[bytes]) -> Stamp | None:
    """Parse a matched time; None if invalid."""
    text = {name: part or b"" for name, part in match.groupdict().items()}
    part = {name: each.decode("ascii") for name, each in text.items()}
    month = part["mo"]
    if month.isalpha():
        number = _MONTHS.index(month.lower()) + 1 if month.lower() in _MONTHS else 0
        return _dated(part, part["y"] or part["late"].strip(), number, int(part["d"]))
    if match.start("y") < match.start("d"):
        year = f"20{part['y']}" if len(part["y"]) == 2 else part["y"]
        return _dated(part, year, int(month), int(part["d"]))
    readings: dict[Stamp, DateOrder] = {}
    for order in DateOrder:
        with suppress(ValueError):
            year, *day = _in_order(order, text["d"], text["sep"], text["mo"], text["y"])
            stamp = _dated(part, str(year), *day)
            if stamp is not None:
                readings.setdefault(stamp, order)
    if not readings:
        return None
    return next(iter(readings))._replace(readings=tuple((o, s) for s, o in readings.items()))


def _dated(part: dict[str, str], year: str, month: int, day: int) -> Stamp | None:
    """The time of a date, with the other parts of a form; without a year it is the latest one."""
    hour = int(part["h"])
    if part["half"]:
        hour = hour % 12 + (12 if part["half"] in "Pp" else 0)
    try:
        local = datetime(2000, month, day, hour, int(part["m"]), int(part["s"]))  # noqa: DTZ001
        local = local.replace(year=int(year) if year else _latest_year(local))
        offset = _offset_of(part["zone"], local)
    except (ValueError, OverflowError):
        return None
    except (ZoneInfoNotFoundError, KeyError):
        offset = None
    ms = int(part["f"].ljust(3, "0")[:3])
    is_unknown = bool(part["zone"]) and offset is None
    return Stamp(
        (local - _START) // _MS + ms,
        1 if part["f"] else 1000,
        offset,
        part["zone"] if is_unknown else "",
    )


def _latest_year(local: datetime) -> int:
    """The latest year in which a date is not in the future: syslog writes none."""
    now = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    return now.year if local.replace(year=now.year) <= now else now.year - 1


def _offset_of(zone: str, local: datetime) -> int | None:
    """The offset of `+02:00`, `-0330`, `+01`, `CET` or `Europe/Berlin` in ms.

    None without a zone.

    Raises:
        KeyError: unknown abbreviation.
        ZoneInfoNotFoundError: unknown zone.
    """
    if not zone:
        return None
    if "/" in zone:
        offset = ZoneInfo(zone).utcoffset(local.replace(tzinfo=ZoneInfo(zone)))
        return offset // _MS if offset is not None else None
    digits = zone.lstrip("GMTUC").replace(":", "")
    if digits[:1] not in ("+", "-"):
        return ZONES_H[zone] * HOUR_MS
    minutes = int(digits[1:3]) * 60 + int(digits[3:] or 0)
    return (-minutes if digits[0] == "-" else minutes) * 60_000
