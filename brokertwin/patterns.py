"""Regular expressions that are compiled when they are used first.

A command that reads a log imports the expressions of all kinds of logs and uses few of them.
"""

import re
from typing import Any, AnyStr, cast


class _LaterPattern:
    """Has the methods of a pattern; each is looked up once."""

    def __init__(self, form: Any, flags: int) -> None:
        self.pattern, self._flags = form, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def later(form: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return the pattern of a regular expression, which is not checked yet."""
    return cast("re.Pattern[AnyStr]", _LaterPattern(form, flags))
