"""Python follows what is nested by recursion, and how deep it can depends on how deep its caller stands."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")


def on_any_stack(function: Callable[[V], T], value: V) -> T:
    """Calls the function, and where the stack is too short for it, once more on that of a new thread."""
    try:
        return function(value)
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, value).result()
