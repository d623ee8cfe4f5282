"""Settings in a DSN are kept; without them, our timeouts apply."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqueue.errors import InvalidArgumentError
from pgqueue.transports.connections import SOCKET_TIMEOUTS, with_timeouts


def test_a_dsn_that_is_silent_gets_our_bounds_and_our_name() -> None:
    options = conninfo_to_dict(with_timeouts("postgresql://localhost/shop"))
    assert options["application_name"] == "pgqueue"
    assert {name: int(options[name]) for name in SOCKET_TIMEOUTS} == SOCKET_TIMEOUTS  # type: ignore[arg-type]


def test_settings_in_a_dsn_are_kept() -> None:
    options = conninfo_to_dict(with_timeouts("postgresql://localhost/shop?connect_timeout=3&application_name=till"))
    assert (options["connect_timeout"], options["application_name"]) == ("3", "till")


def test_a_dsn_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="libpq"):
        with_timeouts("postgres//localhost")
