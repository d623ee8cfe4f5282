"""The time span of a report, and its buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pgqueue.spark.report.requirements import NotReportable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MOST_BUCKETS = 3000
ENOUGH_BUCKETS = 120
ROUND_BUCKETS = (
    *(timedelta(seconds=each) for each in (1, 5, 15, 30)),
    *(timedelta(minutes=each) for each in (1, 5, 15, 30)),
    *(timedelta(hours=each) for each in (1, 3, 6, 12)),
    *(timedelta(days=each) for each in (1, 7)),
)


@dataclass(frozen=True)
class Span:
    """The time from `since` until before `until`; buckets begin at whole multiples of `bucket` since 1970, UTC.

    The first bucket may begin before `since`, and the last may end after `until`.
    """

    since: datetime
    until: datetime
    bucket: timedelta

    @property
    def start(self) -> datetime:
        """When the first bucket begins."""
        return self.since - (self.since - EPOCH) % self.bucket

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return -((self.start - self.until) // self.bucket)

    def starts(self) -> Iterator[datetime]:
        """When each bucket begins."""
        return (self.start + index * self.bucket for index in range(self.buckets))


NOTHING = Span(EPOCH, EPOCH, timedelta(hours=1))


def span_of(since: datetime | None, until: datetime | None, bucket: timedelta | None) -> Span:
    """The span from `since` to `until`; if either is unknown, the span has no buckets.

    The default for `bucket` is the shortest round time, a second or more, that makes at most 120 buckets.

    Raises:
        NotReportable: there would be more than 3000 buckets.
    """
    if since is None or until is None:
        return NOTHING
    span = Span(since, until, bucket or _round_bucket(until - since))
    if span.buckets > MOST_BUCKETS:
        raise NotReportable(
            f"there are {span.buckets} buckets of {span.bucket} from {since} to {until}, and {MOST_BUCKETS} is the "
            "maximum: choose longer ones, or leave `bucket` out"
        )
    return span


def check_span(since: datetime | None, until: datetime | None, bucket: timedelta | None) -> None:
    """Refuse times without a time zone, a span that ends before it begins, and a bucket that is not whole seconds.

    Raises:
        NotReportable: one of these was given.
    """
    for name, moment in {"since": since, "until": until}.items():
        if moment is not None and moment.utcoffset() is None:
            raise NotReportable(f"{name} has no time zone: write {name}.replace(tzinfo=timezone.utc) if it is UTC")
    if since and until and since >= until:
        raise NotReportable(f"since ({since}) is not before until ({until}): exchange them")
    if bucket is not None and (bucket < timedelta(seconds=1) or bucket % timedelta(seconds=1)):
        raise NotReportable(f"bucket must be one or more whole seconds, not {bucket}")


def micros(moment: datetime) -> int:
    """Microseconds since 1970, UTC."""
    return (moment - EPOCH) // MICROSECOND


def moment_of(microseconds: int) -> datetime:
    """The time that many microseconds after 1970, UTC."""
    return EPOCH + microseconds * MICROSECOND


def _round_bucket(length: timedelta) -> timedelta:
    return next((bucket for bucket in ROUND_BUCKETS if length / bucket <= ENOUGH_BUCKETS), ROUND_BUCKETS[-1])
