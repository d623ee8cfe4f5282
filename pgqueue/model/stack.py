"""Calls that may need more stack than is left: Python handles nested values by recursion."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")


def on_any_stack(function: Callable[[V], T], value: V) -> T:
    """Call the function; if the stack is too short for it, call it again in a new thread."""
    try:
        return function(value)
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, value).result()
