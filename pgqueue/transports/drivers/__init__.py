"""The drivers of the connections that applications pass as ``transaction=``, and what each offers.

The library's own connections are psycopg's. psycopg2 and asyncpg are optional: the module for one of them is imported
only when an object of its classes is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg
import psycopg_pool

from pgqueue.errors import PGQueueError
from pgqueue.transports import translation
from pgqueue.transports.drivers.driver import Driver, OtherDriver
from pgqueue.transports.drivers.over_psycopg import OverPsycopg

__all__ = [
    "PSYCOPG",
    "Driver",
    "connections",
    "driver_of",
    "is_of",
    "is_pool_of_asyncpg",
    "kinds",
    "other_driver_of",
    "package_of",
    "sources",
    "translation_of",
    "urls",
]

PSYCOPG = OverPsycopg()


class Offer(NamedTuple):
    """A driver, by the name of its package, and the faces that take its connections."""

    package: str
    faces: Sequence[str]
    has_pool: bool = True


SYNC, ASYNC = "sync", "async"

#: In the order in which errors name them.
OFFERS: Sequence[Offer] = (
    Offer("psycopg", (SYNC, ASYNC)),
    Offer("psycopg2", (SYNC,), has_pool=False),
    Offer("asyncpg", (ASYNC,)),
)

PACKAGES = frozenset(offer.package for offer in OFFERS)


def driver_of(connection: object) -> Driver | None:
    """The driver of a connection; None if this is no connection of a driver that is accepted."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return PSYCOPG
    return other_driver_of(connection)


def other_driver_of(connection: object) -> OtherDriver | None:
    """The driver of a connection of another driver than psycopg."""
    match package_of(connection):
        case "psycopg2":
            from pgqueue.transports.drivers import over_psycopg2

            return over_psycopg2.DRIVER if isinstance(connection, over_psycopg2.CONNECTION) else None
        case "asyncpg":
            from pgqueue.transports.drivers import over_asyncpg

            return over_asyncpg.DRIVER if isinstance(connection, over_asyncpg.CONNECTION) else None
    return None


def translation_of(error: BaseException | None) -> PGQueueError | None:
    """The library's error for one of a driver; None if it is of none."""
    if isinstance(error, psycopg.Error):
        return translation.translate(error)
    match package_of(error):
        case "psycopg2":
            from pgqueue.transports.drivers import over_psycopg2

            return over_psycopg2.translate(error) if isinstance(error, over_psycopg2.ERROR) else None
        case "asyncpg":
            from pgqueue.transports.drivers import over_asyncpg

            return over_asyncpg.translate(error) if isinstance(error, over_asyncpg.ERRORS) else None
    return None


def kinds(source: object, *, asynchronous: bool) -> tuple[type, ...]:
    """The connections and pools of the driver of this object that a face takes."""
    match package_of(source):
        case "psycopg2":
            from pgqueue.transports.drivers import over_psycopg2

            return () if asynchronous else (over_psycopg2.CONNECTION,)
        case "asyncpg":
            from pgqueue.transports.drivers import over_asyncpg

            return (over_asyncpg.CONNECTION, over_asyncpg.POOL) if asynchronous else ()
    if asynchronous:
        return (psycopg.AsyncConnection, psycopg_pool.AsyncConnectionPool)
    return (psycopg.Connection, psycopg_pool.ConnectionPool)


def is_pool_of_asyncpg(source: object) -> bool:
    if package_of(source) != "asyncpg":
        return False
    from pgqueue.transports.drivers import over_asyncpg

    return isinstance(source, over_asyncpg.POOL)


def package_of(thing: object) -> str | None:
    """The driver whose class this is of, found without importing any."""
    modules = (kind.__module__.partition(".")[0] for kind in type(thing).__mro__)
    return next((module for module in modules if module in PACKAGES), None)


def is_of(connection: object, *, asynchronous: bool) -> bool:
    """Whether this is a connection of a driver of this face."""
    return isinstance(connection, kinds(connection, asynchronous=asynchronous)) and driver_of(connection) is not None


def connections(*, asynchronous: bool) -> str:
    """The objects that have a transaction to share, in words."""
    packages = " or ".join(offer.package for offer in _offers(asynchronous))
    return f"a connection of {packages}, or a SQLAlchemy session or connection on {urls(asynchronous=asynchronous)}"


def sources(*, asynchronous: bool) -> str:
    """The objects that a transaction can be begun on, in words."""
    offers = _offers(asynchronous)
    packages = " or ".join(offer.package for offer in offers)
    pools = " or ".join(offer.package for offer in offers if offer.has_pool)
    return (
        f"a connection of {packages}, a pool of {pools}, or an engine, a connection, a session or a session maker of"
        f" SQLAlchemy on {urls(asynchronous=asynchronous)}"
    )


def urls(*, asynchronous: bool) -> str:
    """How the URL of an engine begins."""
    return " or ".join(f"postgresql+{offer.package}://" for offer in _offers(asynchronous))


def _offers(asynchronous: bool) -> Sequence[Offer]:
    return [offer for offer in OFFERS if (ASYNC if asynchronous else SYNC) in offer.faces]
