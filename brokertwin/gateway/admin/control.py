"""The control socket of a gateway with the local engine, for `brokertwin cluster`.

A Unix socket that only the user of the gateway's process may open. Each connection sends one
request as a line of JSON and gets one line back:

    {"ask": "status"}                        {"brokers": [...], "partitions": [...]}
    {"ask": "stop-broker", "broker": 2}      {"response": {}}, or {"error": {"reason", "detail"}}
    {"ask": "fail-log-dir", "broker": 2, "directory": "/disk-2"}    the same
    {"ask": "request", "apiKey": 43, "apiVersion": 2, "principal": "User:admin", "body": {...}}
"""

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import (
    Body,
    BrokerEngine,
    EdgeRequest,
    EngineResponse,
    internal_header,
)
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.cell import overview
from brokertwin.state.core.events import ABOUT_BROKERS, Kind, Reason

LINE_BYTES_MAX = 64 * 1024 * 1024
"""Maximum length of a line: a status has all partitions."""

ONLY_THE_USER = 0o177
STATUS, REQUEST = "status", "request"

_json = msgspec.json.Encoder()


class ControlRequest(msgspec.Struct, rename="camel"):
    ask: str
    broker: int = -1
    directory: str = ""
    api_key: int = -1
    api_version: int = 0
    principal: str = "User:ANONYMOUS"
    body: Body = {}


class Control:
    """Serves a control socket.

    Args:
        path: path of the socket; `open` creates it, `close` deletes it.
    """

    def __init__(self, engine: LocalEngine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen. Raises UserError if that fails."""
        if _is_served(self._path):
            raise UserError(
                f"Another gateway uses the control socket {self._path}.",
                "Stop it, or pass another --control.",
            )
        before = os.umask(ONLY_THE_USER)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, self._path, limit=LINE_BYTES_MAX
            )
        except OSError as error:
            raise UserError(
                f"Cannot create the control socket {self._path}: {error.strerror or error}.",
                "Pass a short path of a file that does not exist to --control.",
            ) from None
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and delete the socket."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            writer.write(_json.encode(await self._respond(await reader.readline())) + b"\n")
            await writer.drain()
        writer.close()

    async def _respond(self, line: bytes) -> Body:
        try:
            command = msgspec.json.decode(line, type=ControlRequest)
        except msgspec.MsgspecError as error:
            return _error(Reason.NOT_JSON, str(error))
        if command.ask == STATUS:
            cells = [self._engine.tables]
            return {
                "brokers": overview.brokers(cells, self._engine.brokers),
                "partitions": overview.partitions(cells),
            }
        if command.ask != REQUEST and command.ask not in ABOUT_BROKERS:
            return _error(Reason.WRONG_TYPE, f"unknown question {command.ask!r}")
        response = await self._engine_response(command)
        if response.error:
            return {"error": response.error}
        return {"response": response.response and response.document(command.api_version)}

    async def _engine_response(self, command: ControlRequest) -> EngineResponse:
        if command.ask in ABOUT_BROKERS:
            return await self._engine.intervene(
                Kind(command.ask), command.broker, command.directory
            )
        key, version = command.api_key, command.api_version
        return await request(self._engine, key, version, command.body, command.principal)


async def request(
    engine: BrokerEngine, api_key: int, version: int, body: Body, principal: str
) -> EngineResponse:
    """Send a request to the first broker that is running and knows the controller.

    If there is none, returns the last broker's error.

    Raises:
        NoResponseError: no response will come.
    """
    header = internal_header(api_key, version, "brokertwin cluster")
    response = EngineResponse(None)
    for broker in engine.brokers:
        response = await engine.submit(EdgeRequest(broker, "control", principal, "", header, body))
        if (response.error or {}).get("reason") not in (
            Reason.BROKER_STOPPED,
            Reason.NO_CONTROLLER,
        ):
            break
    return response


def ask(path: Path, **command: Any) -> Body:
    """Send a request to a gateway through its control socket.

    Raises:
        UserError: no gateway listens there.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            connection.sendall(_json.encode(command) + b"\n")
            with connection.makefile("rb") as lines:
                response: Body = msgspec.json.decode(lines.readline())
                return response
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"No gateway responds at {path}: {error}.",
            f"Start one with: brokertwin gateway --control {path}",
        ) from None


def _is_served(path: Path) -> bool:
    """True if a process listens on the socket; otherwise it may be replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True


def _error(reason: Reason, detail: str) -> Body:
    return {"error": {"reason": reason, "detail": detail}}
