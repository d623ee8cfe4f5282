from __future__ import annotations

from dataclasses import replace

import pytest

from pgqueue import DeadLetter, Message
from pgqueue.demo import flights
from pgqueue.demo.flights import AIRPORTS, Flight, Malformed, Source
from pgqueue.demo.poison import HOPELESS, REFUSED

FIRST = Flight(1, "2013-01-01 05:15", "UA", 1545, "EWR", "IAH", 2)


def test_the_extract_is_january_of_2013() -> None:
    january = list(flights.flights(Source.EXTRACT, None))
    assert january[0] == FIRST
    assert len(january) == flights.count(Source.EXTRACT, None) == 27_004
    assert {flight.scheduled[:7] for flight in january} == {"2013-01"}
    assert {flight.origin for flight in january} == set(AIRPORTS)
    assert sum(flight.delay is None for flight in january) == 521


def test_a_limit_takes_the_first() -> None:
    assert list(flights.flights(Source.EXTRACT, 1)) == [FIRST]
    assert flights.count(Source.EXTRACT, 10) == 10


@pytest.mark.parametrize("flight", [FIRST, replace(FIRST, delay=None)])
def test_the_body_of_a_message_contains_the_whole_flight(flight: Flight) -> None:
    assert Flight.from_body(flight.as_body()) == flight


@pytest.mark.parametrize("poison", HOPELESS, ids=lambda poison: repr(poison.body)[:20])
def test_bodies_that_are_no_flights_are_refused(poison: Message) -> None:
    with pytest.raises(Malformed):
        Flight.from_body(poison.body)


def test_a_foreign_airport_is_refused_once_and_for_all() -> None:
    with pytest.raises(DeadLetter, match="UnknownAirport"):
        Flight.from_body(REFUSED.body)
