"""Passwords of key and trust stores that are altered while brokers run.

The state machine stores only the names of altered secrets, and decides which are in force. The
values are stored here and optionally in a file, so that they survive a restart and other gateways
can use them. Kafka stores them in its metadata log.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.security import secret_files

_log = structlog.get_logger("brokertwin.gateway")

_Texts = dict[str, dict[str, str]]


class StorePasswords:
    """Altered passwords of each broker, by name of setting.

    Args:
        file: file that stores them; None: in memory only.

    Raises:
        UserError: the file cannot be read or has another format.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._texts: _Texts = {}
        self._seen = secret_files.stamp(self._file)
        if self._seen is not None:
            self._texts = self._read()

    def of(self, broker: int) -> Mapping[str, str]:
        self._refresh()
        return self._texts.get(str(broker), {})

    def put(self, broker: int, texts: Mapping[str, str | None]) -> None:
        """Store a broker's passwords; None deletes one.

        If the file cannot be written, an error is logged.
        """
        self._refresh()
        merged = {**self._texts.get(str(broker), {}), **texts}
        kept = {name: text for name, text in merged.items() if text is not None}
        self._texts[str(broker)] = kept
        if self._file is None:
            return
        try:
            secret_files.replace(self._file, msgspec.json.encode(self._texts) + b"\n")
        except OSError as error:
            _log.error("cannot store passwords", file=str(self._file), reason=error.strerror)
        self._seen = secret_files.stamp(self._file)

    def _refresh(self) -> None:
        stamp = secret_files.stamp(self._file)
        if stamp in (self._seen, None):
            return
        self._seen = stamp
        try:
            self._texts = self._read()
        except UserError as error:
            _log.error("cannot reload passwords; the old ones stay", reason=error.message)

    def _read(self) -> _Texts:
        assert self._file is not None, "it was seen"
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Texts)
        except OSError as error:
            raise UserError(f"Cannot read {self._file}: {error.strerror}.") from None
        except msgspec.MsgspecError:
            raise UserError(f"{self._file} is not a file of store passwords.") from None
