"""Interceptors of either face, made of synchronous functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pgqueue
import pgqueue.aio


def interceptor(face: str, **methods: Callable[[Any, Any], Any]) -> Any:
    """An interceptor with these methods, each a function of what is given and the call that passes on."""
    base = pgqueue.Interceptor if face == "sync" else pgqueue.aio.Interceptor
    wrap = _method if face == "sync" else _coroutine
    return type("Given", (base,), {name: wrap(method) for name, method in methods.items()})()


def _method(method: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda self, given, call: method(given, call)


def _coroutine(method: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The function runs in a thread, and calls back into the loop."""

    async def called(self: Any, given: Any, call: Any) -> Any:
        loop = asyncio.get_running_loop()

        def call_back(given: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(call(given), loop).result()

        return await asyncio.to_thread(method, given, call_back)

    return called
