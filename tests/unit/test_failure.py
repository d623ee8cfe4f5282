"""The record of an exception: no frames but those of the user's code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import tenacity

from pgqueue.model.failure import delivery_error, error_document, from_users_code, resubmission, traceback_of
from pgqueue.transports.driving import adrive, drive


class UnspeakableError(Exception):
    """Its text raises an error."""

    def __str__(self) -> str:
        raise ValueError("never")


def raised(cause: Callable[[], Any]) -> BaseException:
    """The error raised, as if the first frame that is not in this file were the outermost."""
    try:
        cause()
    except Exception as error:  # noqa: BLE001 - returned
        following = error.__traceback__
        while following is not None and following.tb_frame.f_code.co_filename == __file__:
            following = following.tb_next
        return error.with_traceback(following or error.__traceback__)
    raise AssertionError("it raised nothing")


def deep() -> None:
    raise ValueError("deep")


def through_our_code() -> None:
    def flow() -> Any:
        yield deep

    drive(flow())


def through_an_event_loop() -> None:
    async def work() -> None:
        deep()

    def flow() -> Any:
        yield work

    asyncio.run(adrive(flow()))


def through_a_library() -> None:
    tenacity.Retrying(stop=tenacity.stop_after_attempt(1), reraise=True)(deep)


def chained() -> None:
    try:
        through_our_code()
    except ValueError as error:
        raise KeyError("k") from error


def grouped() -> None:
    raise ExceptionGroup("several", [raised(through_our_code)])  # type: ignore[type-var]  # it is an Exception


@pytest.mark.parametrize("cause", [through_our_code, through_an_event_loop, through_a_library, chained, grouped])
def test_the_traceback_has_frames_of_the_user_only(cause: Callable[[], None]) -> None:
    text = traceback_of(raised(cause))
    assert "in deep" in text
    assert "ValueError: deep" in text
    for foreign in ("driving.py", "/tenacity/", "/asyncio/"):
        assert foreign not in text


def test_the_log_begins_with_the_first_frame_of_the_user() -> None:
    begins = from_users_code(raised(through_a_library))
    assert begins is not None
    assert begins.tb_frame.f_code.co_name == "deep"


def test_an_error_without_frames_of_the_user_has_no_traceback() -> None:
    error = psycopg.errors.SerializationFailure("again")
    assert error_document(error) == {
        "type": "psycopg.errors.SerializationFailure",
        "text": "again",
        "traceback": None,
    }


def test_the_beginning_of_a_long_text_is_kept_and_the_traceback_keeps_its_frames() -> None:
    def fail() -> None:
        raise ValueError("x" * 100_000)

    document = error_document(raised(fail))
    assert document["text"] == "x" * 2_000
    assert "in fail" in (document["traceback"] or "")


def test_the_end_of_a_long_traceback_is_kept() -> None:
    def down(left: int) -> None:
        up(left - 1) if left else deep()

    def up(left: int) -> None:
        down(left)

    text = error_document(raised(lambda: down(100)))["traceback"] or ""
    assert len(text) == 8_000
    assert text.endswith("ValueError: deep\n")


def test_fields_that_a_later_version_adds_to_an_error_are_ignored() -> None:
    error = {"type": "ValueError", "text": None, "traceback": None, "delivery_count": 1, "locked_by": None}
    error |= {"failed_at": "2031-04-01T00:00:00+00:00", "later": 1}
    assert str(delivery_error(error)) == "ValueError"
    entry = {"queue": "q/$deadletterqueue", "reason": "r", "description": None, "delivery_count": 1, "times": 1}
    entry |= dict.fromkeys(("dead_lettered_at", "resubmitted_at"), "2031-04-01T00:00:00+00:00")
    assert resubmission({**entry, "last_error": error, "later": 1}).last_error == delivery_error(error)


def test_characters_that_postgresql_cannot_store_are_replaced() -> None:
    assert error_document(ValueError("a\0b\ud800c"))["text"] == "a\ufffdb\ufffdc"


def test_an_exception_without_a_text_is_kept_too() -> None:
    assert error_document(UnspeakableError())["text"] == "<message unavailable>"


def chain_of(length: int) -> BaseException:
    error = ValueError("the first")
    for number in range(length):
        following = RuntimeError(number)
        following.__cause__, error = error, following  # type: ignore[assignment]
    return error


def nested(depth: int) -> BaseException:
    error: Exception = raised(deep)  # type: ignore[assignment]
    for _ in range(depth):
        error = ExceptionGroup("a group", [error])
    return error


@pytest.mark.parametrize("error", [chain_of(5_000), nested(400)], ids=["chained", "nested"])
def test_an_error_with_more_causes_than_the_stack_is_deep_is_kept(error: BaseException) -> None:
    assert error_document(error)["type"] in ("RuntimeError", "ExceptionGroup")
