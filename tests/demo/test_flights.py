from __future__ import annotations

from pgqueue.demo.flights import AIRPORTS, Flight, Source, flights

FIRST = Flight(1, "2013-01-01 05:15", "UA", 1545, "EWR", "IAH", 2)


def test_the_extract_is_january_of_2013() -> None:
    january = list(flights(Source.EXTRACT, None))
    assert january[0] == FIRST
    assert len(january) == 27_004
    assert {flight.scheduled[:7] for flight in january} == {"2013-01"}
    assert {flight.origin for flight in january} == set(AIRPORTS)
    assert sum(flight.delay is None for flight in january) == 521


def test_a_limit_takes_the_first() -> None:
    assert list(flights(Source.EXTRACT, 1)) == [FIRST]
