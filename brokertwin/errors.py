"""The errors that a user can do something about."""


class UserError(Exception):
    """Something the user can put right.

    The command line prints it as one line and a hint, without a traceback, and exits with 2. As a
    text it is both, one after the other: what pytest and a log show of it.

    Args:
        message: what is wrong, in one sentence.
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
