from __future__ import annotations

from datetime import timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.cli.quantities import format_duration, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
        ("1.5s", timedelta(seconds=1.5)),
        ("45", timedelta(seconds=45)),
        ("0", timedelta(0)),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5s", "5m!", "1h30", ".", "5x", "99999999999999d", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=250), "0.25s"),
        (timedelta(seconds=59.6), "1m"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=1, hours=2, minutes=3), "1d2h"),
        (timedelta(days=7), "7d"),
    ],
)
def test_a_duration_is_written_to_be_read_at_a_glance(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


@given(st.integers(min_value=10, max_value=10**9).map(lambda seconds: timedelta(seconds=seconds)))
def test_what_is_written_can_be_read_and_is_hardly_less(duration: timedelta) -> None:
    read = parse_duration(format_duration(duration))
    assert read <= duration
    assert duration - read < max(duration * 0.05, timedelta(seconds=1))


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("512", 512), ("512B", 512), ("64kB", 65536), ("2 MB", 2 << 20)])
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "kB", "1.5MB", "64KiB", "-1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_size(text)
