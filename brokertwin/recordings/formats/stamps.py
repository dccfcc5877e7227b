"""Times in the formats of log layouts and log agents."""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

HOUR_MS = 60 * 60 * 1000
SECONDS = range(946_684_800, 4_102_444_800)
"""Accepted seconds since 1970: the years 2000 to 2099."""

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
    rb"(?P<d>\d{1,2})(?P<sep>[-/. ])(?P<mo>\d\d|[A-Za-z]{3})(?P=sep)(?P<y>\d{4}|\d\d)[ :T,@]{1,3}"
    + _CLOCK,
    rb"(?P<sep>)\b(?P<mo>[A-Z][a-z]{2})[a-z]*\.? {1,2}(?P<d>\d{1,2})(?:,? (?P<y>\d{4}))?[ ,@]{1,3}"
    + _CLOCK,
)
_FORMS = [
    re.compile(rb"(?<![\d.])" + date + _ZONE + rb"(?P<late>(?: \d{4}\b)?)") for date in _DATES
]
_KAFKAS = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] [A-Z]{4,5} ")
"""The prefix in Kafka's default layout, parsed faster."""

_EPOCH = re.compile(rb"(?<![\w.:/-])\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?![\w:/-])")
_EPOCH_DIGITS = (10, 13, 16, 19)
_PARTS = re.compile(rb"epochSecond\W{1,4}(\d{10})\W{1,8}nanoOfSecond\W{1,4}(\d{1,9})(?!\d)")
"""Log4j's `instant` in XML."""

_SLASHED = re.compile(
    rb"(?<![\d.])(\d{1,2})/(\d\d)/(?:\d\d)?(\d\d)[ :T,@]{1,3}(?=\d{1,2}:\d\d:\d\d)"
)
_START = datetime(1970, 1, 1)  # noqa: DTZ001
_MS = timedelta(milliseconds=1)


class Stamp(NamedTuple):
    """A time in a text or field.

    Attributes:
        local_ms: date and time in ms, as if in UTC.
        unit_ms: precision: 1, or 1000 without a fraction.
        offset_ms: zone offset; None if unknown or missing.
        unknown_zone: the name of an unknown zone.
        day_first: for a date such as `05/06/2026`, the time with the day before the month.
    """

    local_ms: int
    unit_ms: int
    offset_ms: int | None
    unknown_zone: str = ""
    day_first: "Stamp | None" = None


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


def is_day_first(texts: Iterable[bytes], now: datetime | None = None) -> bool | None:
    """Whether dates with slashes have the day before the month; None if nothing shows it.

    A number above 12 is a day. Otherwise the dates go back less often, cover less time and are
    not in the future if they are read correctly.
    """
    now = now or datetime.now(UTC)
    found = dict.fromkeys(match.groups() for text in texts for match in _SLASHED.finditer(text))
    dates = [(2000 + int(year), int(first), int(second)) for first, second, year in found]
    has_day_first = any(first > 12 for _, first, _ in dates)
    if has_day_first or any(second > 12 for _, _, second in dates):
        return has_day_first
    with suppress(ValueError):
        month_first = _strangeness([datetime(*date, tzinfo=UTC) for date in dates], now)
        day_first = _strangeness(
            [datetime(y, second, first, tzinfo=UTC) for y, first, second in dates], now
        )
        return None if day_first == month_first else day_first < month_first
    return None


def _strangeness(dates: list[datetime], now: datetime) -> tuple[bool, int, timedelta]:
    """How unlikely these dates of a log are: in the future, out of order, far apart."""
    is_in_future = any(date > now + timedelta(days=1) for date in dates)
    steps_back = sum(later < earlier for earlier, later in pairwise(dates))
    return is_in_future, steps_back, max(dates) - min(dates) if dates else timedelta()


def _stamp(match: re.Match[bytes]) -> Stamp | None:
    """Parse a matched time; None if invalid."""
    part = {name: (text or b"").decode("ascii") for name, text in match.groupdict().items()}
    month, day = part["mo"], int(part["d"])
    if month.isalpha():
        number = _MONTHS.index(month.lower()) + 1 if month.lower() in _MONTHS else 0
        return _dated(part, number, day)
    number = int(month)
    is_slashed = part["sep"] == "/" and match.start("d") < match.start("mo")
    if not is_slashed or day > 12 or day == number:
        return _dated(part, number, day)
    day_first = _dated(part, number, day)
    month_first = _dated(part, day, number)
    return month_first and month_first._replace(day_first=day_first)


def _dated(part: dict[str, str], month: int, day: int) -> Stamp | None:
    """The time of a month and a day, with the other parts of a form."""
    hour = int(part["h"])
    if part["half"]:
        hour = hour % 12 + (12 if part["half"] in "Pp" else 0)
    try:
        local = datetime(2000, month, day, hour, int(part["m"]), int(part["s"]))  # noqa: DTZ001
        local = local.replace(year=_year(part["y"] or part["late"].strip(), local))
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


def _year(text: str, local: datetime) -> int:
    """The year; syslog has none, so it is the latest without a future time."""
    if text:
        return int(text) if len(text) == 4 else 2000 + int(text)
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
