from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.cli.failures import WrongUse
from pgqueue.cli.quantities import format_duration, parse_count, parse_duration, parse_moment, parse_rate, parse_size


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
def test_invalid_durations_are_refused(text: str) -> None:
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
def test_a_formatted_duration_can_be_parsed_and_is_hardly_shorter(duration: timedelta) -> None:
    read = parse_duration(format_duration(duration))
    assert read <= duration
    assert duration - read < max(duration * 0.05, timedelta(seconds=1))


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("512", 512), ("512B", 512), ("64kB", 65536), ("2 MB", 2 << 20)])
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "kB", "1.5MB", "64KiB", "-1"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_size(text)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-01-31T12:00Z", "2026-01-31T13:00+01:00", "2026-01-31 12:00:00.000Z", "0s"])
def test_a_time_is_read_with_its_zone_or_from_now(text: str) -> None:
    moment = parse_moment(text)
    assert moment.after(NOON) == moment.before(NOON) == NOON


def test_a_duration_is_before_now_or_after_it() -> None:
    assert parse_moment("10m").after(NOON) == NOON + timedelta(minutes=10)
    assert parse_moment("10m").before(NOON) == NOON - timedelta(minutes=10)


@pytest.mark.parametrize("text", ["", "noon", "2026-01-31T12:00", "2026-02-30T12:00Z", "-10m", "12:00Z"])
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_moment(text)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00+12:00", "999999999d"])
def test_times_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(WrongUse):
        parse_moment(text).after(NOON)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1_000", "٣"])
def test_invalid_counts_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_count(text)


@pytest.mark.parametrize(("text", "rate"), [("100", 100), ("0.5", 0.5)])
def test_a_rate_may_have_a_fraction(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1", "1/s", "nan", "1e3"])
def test_invalid_rates_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_rate(text)
