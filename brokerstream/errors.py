"""The errors that a user can do something about."""


class UserError(Exception):
    """Something the user can put right.

    The command line prints it as one line and a hint, without a traceback, and exits with 2.

    Args:
        message: what is wrong, in one sentence.
        hint: what to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
