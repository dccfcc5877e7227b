"""A coroutine that is run at once, and continued in a task."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from brokertwin.gateway.eager import started

Seen = list[str]


async def waits(seen: Seen, *awaited: Awaitable[str]) -> None:
    seen.append("begun")
    try:
        for each in awaited:
            try:
                seen.append(await each)
            except ValueError as error:
                seen.append(f"caught {error}")
            await asyncio.sleep(0)
    finally:
        seen.append("ended")


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_coroutine_without_a_wait_ends_at_once() -> None:
    async def scenario() -> None:
        seen: Seen = []
        assert started(waits(seen)) is None
        assert seen == ["begun", "ended"]

    run(scenario())


def test_rest_continues_with_results_and_errors() -> None:
    async def scenario() -> None:
        loop, seen = asyncio.get_running_loop(), Seen()
        futures = [loop.create_future() for _ in range(3)]
        rest = started(waits(seen, *futures))
        assert rest is not None
        assert seen == ["begun"]
        futures[0].set_exception(ValueError("first"))
        loop.call_soon(futures[1].set_result, "second")
        loop.call_soon(futures[2].set_exception, ValueError("third"))
        await rest
        assert seen == ["begun", "caught first", "second", "caught third", "ended"]

    run(scenario())


def test_cancelled_rest_ends_the_coroutine() -> None:
    async def scenario() -> None:
        loop, seen = asyncio.get_running_loop(), Seen()
        future = loop.create_future()
        rest = started(waits(seen, future))
        assert rest is not None
        task = asyncio.ensure_future(rest)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.cancelled()
        assert seen == ["begun", "ended"]

    run(scenario())


def test_error_before_the_first_wait_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        started(fails())
