"""Gateways that are killed under clients of the SDK: nothing is lost, and nothing that was settled comes again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.gateway.serving import key_of
from tests.patience import eventually

MESSAGES, KILLS = 200, 4

CUT = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgqueue gateway'"


class Process:
    """``pgqueue gateway`` as a process of its own, which can be killed and restarted."""

    def __init__(self, database: Database, port: int) -> None:
        self._command = [
            sys.executable,
            "-m",
            "pgqueue",
            "gateway",
            "--listen",
            f"127.0.0.1:{port}",
            "--dsn",
            database.dsn,
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("amqp://"), self.process.communicate()[1]

    def end(self, number: int) -> tuple[int, str]:
        os.kill(self.process.pid, number)
        _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log


@pytest.fixture
def process(database: Database, shop: str, free_port: int) -> Iterator[Process]:
    one = Process(database, free_port)
    yield one
    if one.process.poll() is None:
        one.end(signal.SIGKILL)


@pytest.fixture
def connection_string(database: Database, process: Process, free_port: int) -> str:
    key = key_of(database, "shop")
    return f"Endpoint=sb://127.0.0.1:{free_port};SharedAccessKeyName=shop;SharedAccessKey={key};UseDevelopmentEmulator=true"


@dataclass
class Ledger:
    """The operations of clients that have succeeded."""

    stored: set[str] = field(default_factory=set)
    received: dict[str, int] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)
    again: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def send(self, connection_string: str) -> None:
        while len(self.stored) < MESSAGES:
            with (
                suppress(ServiceBusError),
                ServiceBusClient.from_connection_string(connection_string, retry_total=0) as azure,
                azure.get_queue_sender("orders") as sender,
            ):
                while len(self.stored) < MESSAGES:
                    body = str(len(self.stored))
                    sender.send_messages(ServiceBusMessage(body, message_id=body), timeout=10)
                    self.stored.add(body)

    def has_stored(self, messages: int) -> bool:
        return len(self.stored) >= messages

    def receive(self, connection_string: str) -> None:
        while not self.is_over.is_set():
            with (
                suppress(ServiceBusError),
                ServiceBusClient.from_connection_string(connection_string, retry_total=0) as azure,
                azure.get_queue_receiver("orders", max_wait_time=1, prefetch_count=10) as receiver,
            ):
                for message in receiver:
                    self._handle(receiver, message)

    def _handle(self, receiver: Any, message: Any) -> None:
        body = str(message)
        if body in self.completed:
            self.again.append(body)
        self.received[body] = self.received.get(body, 0) + 1
        with suppress(ServiceBusError):
            receiver.complete_message(message)
            self.completed.add(body)


def test_clients_survive_gateways_that_are_killed(
    database: Database, client: QueueClient, process: Process, connection_string: str
) -> None:
    client.create_queue(
        "orders", lock_duration=timedelta(seconds=5), max_delivery_count=100, requires_duplicate_detection=True
    )
    ledger = Ledger()
    threads = [threading.Thread(target=work, args=[connection_string]) for work in (ledger.send, ledger.receive)]
    for thread in threads:
        thread.start()
    for nth in range(1, KILLS + 1):
        eventually(partial(ledger.has_stored, nth * MESSAGES // (KILLS + 1)), "the sender stands still")
        if nth == KILLS:
            with psycopg.connect(database.dsn, autocommit=True) as connection:
                connection.execute(CUT)
        else:
            process.end(signal.SIGKILL)
            process.start()
    threads[0].join()
    database.clock.move(timedelta(seconds=10))  # locks of the killed expire
    eventually(lambda: not client.queue("orders").peek(), "messages are left")
    ledger.is_over.set()
    threads[1].join()
    assert ledger.stored == {str(n) for n in range(MESSAGES)} == ledger.received.keys()
    assert ledger.again == []


def test_a_gateway_that_is_stopped_gives_back_what_clients_hold(
    client: QueueClient, process: Process, connection_string: str
) -> None:
    client.create_queue("orders")
    client.create_queue("steps", requires_session=True)
    with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as azure:
        with azure.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
        with azure.get_queue_sender("steps") as sender:
            sender.send_messages(ServiceBusMessage("3", session_id="a"))
        receiver = azure.get_queue_receiver("orders", max_wait_time=5)
        session = azure.get_queue_receiver("steps", session_id="a", max_wait_time=5)
        received = receiver.receive_messages(max_message_count=2)
        received += receiver.receive_messages() if len(received) < 2 else []
        assert len(session.receive_messages()) == 1
        assert client.get_queue_runtime_properties("orders").locked == 2
        code, log = process.end(signal.SIGTERM)
        assert (code, "Traceback" in log) == (0, False)
        counts = client.get_queue_runtime_properties("orders")
        assert (counts.ready, counts.locked) == (2, 0)
        assert [message.delivery_count for message in client.queue("orders").peek(max_messages=2)] == [0, 0]
        assert not client.queue("steps").list_sessions()[0].is_locked
        with suppress(ServiceBusError, ValueError):
            receiver.close()
            session.close()
