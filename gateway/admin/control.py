"""The control socket of a gateway: what `brokertwin cluster` asks of the engine local.

A socket in the file system, which only the user of the gateway's process may open. Each connection
asks one thing in one line of JSON and gets one line back:

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
from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, Engine
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.cell import overview
from brokertwin.state.core.events import ABOUT_BROKERS, Kind, Reason
from brokertwin.state.core.kafka_apis import KAFKA_APIS

LINE_BYTES_MAX = 64 * 1024 * 1024
"""A status of all partitions is one line."""

ONLY_THE_USER = 0o177
STATUS, REQUEST = "status", "request"

_json = msgspec.json.Encoder()


class Asked(msgspec.Struct, rename="camel"):
    """What a connection asks."""

    ask: str
    broker: int = -1
    directory: str = ""
    api_key: int = -1
    api_version: int = 0
    principal: str = "User:ANONYMOUS"
    body: Body = {}


class Control:
    """Listens on a control socket.

    Args:
        engine: what is asked.
        path: of the socket; made by `open`, and gone after `close`.
    """

    def __init__(self, engine: LocalEngine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen. Raises UserError where that is not possible."""
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
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            writer.write(_json.encode(await self._answer(await reader.readline())) + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> Body:
        try:
            asked = msgspec.json.decode(line, type=Asked)
        except msgspec.MsgspecError as error:
            return _error(Reason.NOT_JSON, str(error))
        if asked.ask == STATUS:
            cells = [self._engine.tables]
            return {
                "brokers": overview.brokers(cells, self._engine.brokers),
                "partitions": overview.partitions(cells),
            }
        if asked.ask != REQUEST and asked.ask not in ABOUT_BROKERS:
            return _error(Reason.WRONG_TYPE, f"unknown question {asked.ask!r}")
        answer = await self._engines_answer(asked)
        return {"error": answer.error} if answer.error else {"response": answer.response}

    async def _engines_answer(self, asked: Asked) -> Answer:
        if asked.ask in ABOUT_BROKERS:
            return await self._engine.intervene(Kind(asked.ask), asked.broker, asked.directory)
        key, version = asked.api_key, asked.api_version
        return await request(self._engine, key, version, asked.body, asked.principal)


async def request(engine: Engine, api_key: int, version: int, body: Body, principal: str) -> Answer:
    """Ask the first broker that can ask; where none can, the last one's refusal is the answer.

    Raises:
        UnansweredError: no answer will come.
    """
    header = {
        "requestApiKey": api_key,
        "requestApiVersion": version,
        "clientId": "brokertwin cluster",
        "requestApiKeyName": KAFKA_APIS[api_key].name,
    }
    answer = Answer(None)
    for broker in engine.brokers:
        answer = await engine.submit(EdgeRequest(broker, "control", principal, "", header, body))
        if (answer.error or {}).get("reason") not in (Reason.BROKER_STOPPED, Reason.NO_CONTROLLER):
            break
    return answer


def ask(path: Path, **asked: Any) -> Body:
    """Ask a gateway through its control socket.

    Raises:
        UserError: no gateway listens there.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            connection.sendall(_json.encode(asked) + b"\n")
            with connection.makefile("rb") as lines:
                answer: Body = msgspec.json.decode(lines.readline())
                return answer
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"No gateway responds at {path}: {error}.",
            f"Start one with: brokertwin gateway --control {path}",
        ) from None


def _is_served(path: Path) -> bool:
    """Whether somebody listens on a socket; one that nobody listens on may be replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True


def _error(reason: Reason, detail: str) -> Body:
    return {"error": {"reason": reason, "detail": detail}}
