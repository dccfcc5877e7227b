"""Errors that a user can fix."""


class UserError(Exception):
    """An error that the user can fix.

    The command line prints the message and the hint without a traceback and exits with code 2.
    `str()` returns both in one line, for pytest and logs.

    Args:
        message: what happened, in one sentence.
        hint: what to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class NothingRecordedError(UserError):
    """A recording that has no exchange."""
