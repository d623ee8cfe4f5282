"""``python -m benchmarks.gateway``: clients on the wire beside the library, in turns on one server."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSender

from benchmarks.arguments import whole
from benchmarks.gateway.wire import BATCH, WireClient, batch, message
from benchmarks.report import load, machine
from benchmarks.server import running, version
from benchmarks.working.scene import Countdown
from pgqueue import Message, QueueClient, ReceivedMessage, Worker
from pgqueue.gateway.keys import derived

PORT = 5679
BODY = b"x" * 200
IN_FLIGHT, IN_A_BATCH, PREFETCH = 10, 100, 100

#: The share of the library's rate that each way is to reach on the wire.
AIMS = {"single sends, 10 in flight": 0.5, "batches of 100": 0.5, "receive and complete": 0.3}


class Scene:
    """A server, a gateway in front of it, and a queue."""

    def __init__(self, client: QueueClient, key: str, messages: int) -> None:
        self.client = client
        self.queue = client.queue("bench")
        self.key = key
        self.messages = messages
        self.azure = f"Endpoint=sb://127.0.0.1:{PORT};SharedAccessKeyName=bench;SharedAccessKey={key};UseDevelopmentEmulator=true"

    def fill(self) -> None:
        for _ in range(self.messages // 1000):
            self.queue.send_batch([Message(BODY) for _ in range(1000)])

    def wire(self, *, sends: bool) -> WireClient:
        return WireClient(("127.0.0.1", PORT), self.key, sends=sends)


def rate(count: int, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


# -- sending -----------------------------------------------------------------------------------------------------------


def library_sends(scene: Scene) -> float:
    def work() -> None:
        with scene.queue.sender(max_in_flight=IN_FLIGHT) as sender:
            for _ in range(scene.messages):
                sender.send(Message(BODY))

    return rate(scene.messages, work)


def wire_sends(scene: Scene) -> float:
    with scene.wire(sends=True) as client:
        return rate(scene.messages, lambda: client.send(scene.messages, message(BODY), IN_FLIGHT))


def sdk_sends(scene: Scene) -> float:
    count = scene.messages // 10

    def one(sender: ServiceBusSender) -> None:
        for _ in range(count // IN_FLIGHT):
            sender.send_messages(ServiceBusMessage(BODY))

    with ExitStack() as stack, ThreadPoolExecutor(IN_FLIGHT) as pool:
        clients = [ServiceBusClient.from_connection_string(scene.azure) for _ in range(IN_FLIGHT)]
        senders = [stack.enter_context(client.get_queue_sender("bench")) for client in clients]
        found = rate(count, lambda: list(pool.map(one, senders)))
        for client in clients:
            client.close()
        return found


def library_batches(scene: Scene) -> float:
    def work() -> None:
        for _ in range(scene.messages // IN_A_BATCH):
            scene.queue.send_batch([Message(BODY) for _ in range(IN_A_BATCH)])

    return rate(scene.messages, work)


def wire_batches(scene: Scene) -> float:
    with scene.wire(sends=True) as client:
        raw, count = batch(BODY, IN_A_BATCH), scene.messages // IN_A_BATCH
        return rate(scene.messages, lambda: client.send(count, raw, 1, BATCH))


def sdk_batches(scene: Scene) -> float:
    with ServiceBusClient.from_connection_string(scene.azure) as azure, azure.get_queue_sender("bench") as sender:

        def work() -> None:
            for _ in range(scene.messages // IN_A_BATCH):
                sender.send_messages([ServiceBusMessage(BODY) for _ in range(IN_A_BATCH)])

        return rate(scene.messages, work)


# -- receiving ---------------------------------------------------------------------------------------------------------


def worker_receives(scene: Scene) -> float:
    def handle(_: ReceivedMessage) -> None:
        countdown.one()

    scene.fill()
    worker = Worker(scene.queue, handle, concurrency=8)
    countdown = Countdown(scene.messages, worker.stop)
    worker.run()
    return countdown.rate()


def wire_receives(scene: Scene) -> float:
    scene.fill()
    with scene.wire(sends=False) as client:
        found = rate(scene.messages, lambda: client.receive(scene.messages, PREFETCH))
        wait_for_the_last(scene)
        return found


def sdk_receives(scene: Scene) -> float:
    scene.fill()
    with (
        ServiceBusClient.from_connection_string(scene.azure) as azure,
        azure.get_queue_receiver("bench", prefetch_count=PREFETCH, max_wait_time=5) as receiver,
    ):

        def work() -> None:
            left = scene.messages
            while left:
                for received in receiver.receive_messages(max_message_count=PREFETCH):
                    receiver.complete_message(received)
                    left -= 1

        return rate(scene.messages, work)


def wait_for_the_last(scene: Scene) -> None:
    while scene.queue.peek():
        time.sleep(0.01)


WAYS: dict[str, dict[str, Callable[[Scene], float]]] = {
    "single sends, 10 in flight": {"library": library_sends, "wire": wire_sends, "Azure SDK": sdk_sends},
    "batches of 100": {"library": library_batches, "wire": wire_batches, "Azure SDK": sdk_batches},
    "receive and complete": {"library": worker_receives, "wire": wire_receives, "Azure SDK": sdk_receives},
}


@contextmanager
def gateway(dsn: str) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "pgqueue",
        "gateway",
        "--listen",
        f"127.0.0.1:{PORT}",
        "--dsn",
        dsn,
        "--log-level",
        "warning",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("amqp://")
        yield
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--messages", type=whole, default=5000, help="in each run")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    busy = load()
    with running() as server, QueueClient(server.dsn()) as client:
        client.migrate()
        client.create_queue("bench", lock_duration=timedelta(minutes=5))
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("create role bench; select pgqueue.grant_admin('bench')")
            ((salt,),) = connection.execute("select pgqueue.create_gateway_key('bench', 'bench')").fetchall()
        scene = Scene(client, derived(b"", "bench", bytes(salt)), options.messages)
        with gateway(server.dsn()):
            measured = measure(scene, options.rounds)
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, {busy}"
    rounds = f"Messages a second of {len(BODY)} bytes, median of {options.rounds} rounds in turns."
    text = f"{conditions}. {rounds}\n\n{measured}\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(f"# The gateway\n\n`{' '.join(['python', *sys.orig_argv[1:]])}`\n\n{text}")


def measure(scene: Scene, rounds: int) -> str:
    lines = ["| | library | wire | ÷ library | aim | Azure SDK | ÷ library |", "|---|---:|---:|---:|---:|---:|---:|"]
    for title, ways in WAYS.items():
        figures: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, run in ways.items():
                figures[way].append(run(scene))
                scene.client.purge_queue("bench")
        ratios = {
            way: statistics.median(a / b for a, b in zip(figures[way], figures["library"], strict=True)) for way in ways
        }
        shown = {way: f"{statistics.median(found):,.0f}" for way, found in figures.items()}
        print(title, shown, ratios, file=sys.stderr, flush=True)
        lines.append(
            f"| {title} | {shown['library']} | {shown['wire']} | {ratios['wire']:.2f} | {AIMS[title]} |"
            f" {shown['Azure SDK']} | {ratios['Azure SDK']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
