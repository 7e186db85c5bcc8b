"""Asynchronous sources and callbacks, awaited in one event loop from the first entry of a pull to the last."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from ..errors import BuildFailed

if TYPE_CHECKING:
    import asyncio

BATCH = 512
"""Items of an asynchronous source that are awaited before they are read."""
EnsureSync = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What makes a plain function of a coroutine function, as `flask.Flask.ensure_sync` does."""


def in_asyncio(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """*function*, run by asyncio: the `EnsureSync` where there is no application that has its own."""
    import asyncio  # which takes longer than all of this package

    return lambda *args: asyncio.run(function(*args))


def awaited(value: Any, ensure_sync: EnsureSync = in_asyncio) -> Any:
    """*value*, or what awaiting it gives, in a loop of its own."""
    if not isinstance(value, Awaitable):
        return value
    with Awaiting(ensure_sync) as awaiting:
        return awaiting.value(value)


class Awaiting:
    """Waits in this thread for what is awaited in another, in one task of one event loop.

        with Awaiting(app.ensure_sync) as awaiting:
            for item in awaiting.items(asynchronous_generator()):
                ...

    The loop is run by one coroutine function that goes through *ensure_sync*, once. So asyncio's timeouts, task groups
    and connections, which belong to a task or a loop, last from the first item to the last; context variables are a
    copy of the pull's. In a thread of its own it may be asked for where another loop runs. All begins with the first
    value that is to be awaited.
    """

    def __init__(self, ensure_sync: EnsureSync = in_asyncio) -> None:
        self._ensure_sync = ensure_sync
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            if self._thread.is_alive():
                self._ask(None)
            self._thread.join()
            self._thread = None

    def items(self, pulled: Any) -> Iterable[Any]:
        """The items of what a function returned: an iterable, an asynchronous one, or a coroutine of either."""
        if isinstance(pulled, Iterable):
            return pulled
        if isinstance(pulled, AsyncIterable):
            return self._pulled(pulled)
        return self.items(self._awaited(pulled)) if isinstance(pulled, Awaitable) else pulled

    def value(self, value: Any) -> Any:
        """*value*, or what awaiting it gives."""
        return self._awaited(value) if isinstance(value, Awaitable) else value

    def values(self, values: Sequence[Any]) -> Sequence[Any]:
        """What awaiting each of *values* gives, one after the other; what cannot be awaited stays."""
        try:
            return self._awaited(_values(values))  # type: ignore[no-any-return]
        finally:
            for value in values:
                if isinstance(value, Coroutine):
                    value.close()  # those after one that failed

    def _pulled(self, pulled: AsyncIterable[Any]) -> Iterator[Any]:
        iterator = aiter(pulled)
        try:
            while batch := self._awaited(_batch(iterator)):
                yield from batch
        finally:
            if self._thread and self._thread.is_alive() and (close := getattr(iterator, "aclose", None)):
                self._answer(close())

    def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        from concurrent.futures import thread as pools

        try:
            # asgiref's thread is waited for at the end of the process, before anything else could end the build.
            if getattr(pools, "_shutdown", False):
                raise BuildFailed("this process is ending")
            return self._answer(awaitable)
        finally:
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # in case nobody came to await it

    def _answer(self, awaitable: Awaitable[Any]) -> Any:
        if self._thread is None:
            self._start()
        self._ask(awaitable)
        return self._next_answer()

    def _ask(self, awaitable: Awaitable[Any] | None) -> None:
        self._loop.call_soon_threadsafe(self._requests.put_nowait, awaitable)

    def _next_answer(self) -> Any:
        try:
            answer, error = self._answers.get()
        except KeyboardInterrupt:
            if self._thread is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)
                self._answers.get()  # so that the next answer is to the next question
            raise
        if error is not None:
            raise error
        return answer

    def _start(self) -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="sitemap-await", daemon=True)
        thread.start()
        self._loop, self._task, self._requests = self._next_answer()
        self._thread = thread

    def _run(self) -> None:
        error: BaseException = RuntimeError("the event loop ended before the section did")
        try:
            self._ensure_sync(self._serve)()
        except BaseException as raised:
            error = raised
        self._answers.put((None, error))  # in any case, since somebody may wait

    async def _serve(self) -> None:
        import asyncio

        requests: asyncio.Queue[Awaitable[Any] | None] = asyncio.Queue()
        self._answers.put(((asyncio.get_running_loop(), asyncio.current_task(), requests), None))
        while (awaitable := await requests.get()) is not None:
            self._answers.put(await _answered(awaitable))


async def _answered(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    import asyncio

    try:
        return await awaitable, None
    except asyncio.CancelledError as error:  # no Exception, so that it would end the build, not the section alone
        return None, RuntimeError("what the section awaits was cancelled").with_traceback(error.__traceback__)
    except BaseException as error:
        return None, error


async def _values(values: Sequence[Any]) -> list[Any]:
    return [await value if isinstance(value, Awaitable) else value for value in values]


async def _batch(iterator: AsyncIterator[Any]) -> list[Any]:
    batch: list[Any] = []
    while len(batch) < BATCH:
        try:
            batch.append(await anext(iterator))
        except StopAsyncIteration:
            break
    return batch
