"""A consumer in a process of its own, to be killed. Run as a script; ``tests.chaos.processes`` is the other end.

It reports each step on stdout, one JSON line each, and waits for a line on stdin where it pauses.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import tenacity
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker

import pgqueue
from pgqueue import DeadLetter, LockLostError, PGQueueError, ReceivedMessage
from tests.chaos.ledger import Ledger


def say(step: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"step": step, **more}) + "\n")
    sys.stdout.flush()


def stand(step: str, **more: object) -> None:
    say(step, **more)
    if not sys.stdin.readline():
        sys.exit("the parent process is gone")


def pinned(dsn: str, name: str, kind: str) -> None:
    """Works on one message in a transaction of the library's."""
    with pgqueue.QueueClient(dsn) as client, opened(dsn, kind) as source:
        received = _receive(client, name)
        with received.transaction(source) as transaction:
            _announce_commit(transaction)
            stand("pinned")
            Ledger(dsn).completed(transaction, received.sequence_number)
            stand("worked")
            received.complete(transaction=transaction)
            stand("deleted")
        say("committed")


def unpinned(dsn: str, name: str, kind: str) -> None:
    """Works on one message in a transaction of its own, and proves the lock only at the end.

    It swallows the refusal: the database must see to it that nothing is committed all the same.
    """
    with pgqueue.QueueClient(dsn) as client, opened(dsn, kind) as transaction:
        received = _receive(client, name)
        Ledger(dsn).completed(transaction, received.sequence_number)
        stand("worked")
        try:
            received.complete(transaction=transaction)
        except LockLostError:
            say("refused")
        transaction.commit()
        say("ended")


def transacted(dsn: str, name: str, kind: str) -> None:
    """Takes a message out in a transaction, the traditional way."""
    with pgqueue.QueueClient(dsn) as client, opened(dsn, kind) as transaction:
        [taken] = client.queue(name).receive_and_delete(transaction=transaction)
        Ledger(dsn).completed(transaction, taken.sequence_number)
        stand("taken", sequence_number=taken.sequence_number)
        transaction.commit()
        say("committed")


def endless(dsn: str, name: str, kind: str) -> None:
    """Works until its stdin is closed, whatever happens to its connections. It stumbles now and then."""
    ledger, chance, over = Ledger(dsn), random.Random(name), _end_of_input()

    def work(message: ReceivedMessage, transaction: Any) -> None:
        ledger.completed(transaction, message.sequence_number)
        if message.body["poison"]:
            raise DeadLetter("Poison", "its body is marked as poison")
        if chance.random() < 0.05:
            raise psycopg.errors.SerializationFailure("stumbled")

    source = None if kind == "psycopg" else sessionmaker(create_engine(_url(dsn)))
    patience = tenacity.Retrying(stop=tenacity.stop_after_attempt(5))
    with pgqueue.QueueClient(dsn) as client:
        say("ready")
        while not over.is_set():
            try:
                for received in client.queue(name).receive(max_messages=3):
                    pgqueue.process(received, work, source, retry=patience)
                    say("done", sequence_number=received.sequence_number)
            except (PGQueueError, psycopg.Error) as error:
                say("failed", error=repr(error))
    say("over")


@contextmanager
def opened(dsn: str, kind: str) -> Iterator[Any]:
    """The source of a transaction: a connection or a session."""
    if kind == "psycopg":
        with psycopg.connect(dsn) as connection:
            yield connection
    else:
        with Session(create_engine(_url(dsn))) as session:
            yield session


def _receive(client: pgqueue.QueueClient, name: str) -> ReceivedMessage:
    [received] = client.queue(name).receive()
    stand("claimed", sequence_number=received.sequence_number, lock_token=str(received.lock_token))
    return received


def _announce_commit(transaction: Any) -> None:
    """The database raises a notice when it has begun the COMMIT; see ``slow_commits``."""
    driver: Any = transaction
    if isinstance(transaction, Session):
        driver = transaction.connection().connection.driver_connection
    driver.add_notice_handler(lambda notice: say(notice.message_primary))


def _end_of_input() -> threading.Event:
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    return over


def _url(dsn: str) -> str:
    return dsn.replace("postgresql://", "postgresql+psycopg://", 1)


PLAYS = {play.__name__: play for play in (pinned, unpinned, transacted, endless)}

if __name__ == "__main__":
    PLAYS[sys.argv[1]](*sys.argv[2:])
