"""A request that does not wait is handled without a task."""

import asyncio

import pytest

from brokertwin.gateway.connection import _begun


def test_coroutine_that_does_not_wait_needs_no_task() -> None:
    async def main() -> None:
        loop, done = asyncio.get_running_loop(), []

        async def respond() -> None:
            done.append(1)

        assert _begun(loop, respond()) is None
        assert done == [1]

    asyncio.run(main())


def test_coroutine_that_waits_goes_on_as_a_task() -> None:
    async def main() -> None:
        loop, steps = asyncio.get_running_loop(), []
        reply: asyncio.Future[str] = loop.create_future()

        async def respond() -> None:
            await asyncio.sleep(0)
            steps.append(await reply)
            with pytest.raises(ValueError, match="lost"):
                await failing
            async with asyncio.timeout(60):
                steps.append("timed")

        failing: asyncio.Future[str] = loop.create_future()
        task = _begun(loop, respond())
        assert task is not None
        reply.set_result("reply")
        failing.set_exception(ValueError("lost"))
        await task
        assert steps == ["reply", "timed"]

    asyncio.run(main())


def test_cancelling_the_task_cancels_the_coroutine() -> None:
    async def main() -> None:
        loop, ends = asyncio.get_running_loop(), []

        async def respond() -> None:
            try:
                await loop.create_future()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        task = _begun(loop, respond())
        assert task is not None
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends == ["cancelled"]

    asyncio.run(main())
