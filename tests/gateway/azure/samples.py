"""``python -m tests.gateway.azure samples [PART ...]`` runs the SDK's samples, each a process with queues of its
own. It fails if one fails that is not listed, and if one succeeds that is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pgqueue import Message
from pgqueue.testing.database import create_template, created
from pgqueue.testing.hosts import binaries
from pgqueue.testing.server import ThrowawayServer
from tests.gateway.azure import tooling
from tests.gateway.azure.plugin import cannot
from tests.gateway.serving import key_of

HOST = f"samples{tooling.SUFFIX}"

#: How long a sample may take, in seconds: one sleeps for eight minutes. Those that are listed may wait for ever.
PATIENCE, LISTED_PATIENCE = 600, 45

#: How many run at a time; most of them wait.
AT_A_TIME = 4


def main(folder: Path, parts: list[str]) -> int:
    paths = sorted(path for path in folder.glob("*/*.py") if not parts or any(part in path.name for part in parts))
    server = ThrowawayServer(binaries())
    try:
        server.create()
        server.start()
        with (
            created(server.dsn(), create_template(server.dsn())) as database,
            tooling.namespace(database),
            ThreadPoolExecutor(AT_A_TIME) as pool,
        ):
            succeeded = list(pool.map(run, paths))
    finally:
        server.remove()
    report(f"{sum(succeeded)} of {len(paths)} samples did what is expected")
    return 0 if all(succeeded) else 1


def report(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def run(path: Path) -> bool:
    """Run a sample; returns whether it did what is expected."""
    why = cannot().get(f"{path.parent.name}::{path.name}")
    command = [sys.executable, "-m", "tests.gateway.azure.sample", str(path)]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, env=environment(path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE if why is None else LISTED_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    has_failed = process.returncode != 0 or "Traceback" in output
    took = f"{path.parent.name}/{path.name} {time.monotonic() - begin:.0f} s"
    if has_failed == (why is not None):
        report(f"as expected: {took}{'' if why is None else f' cannot: {why}'}")
        return True
    report(f"{'FAILED' if has_failed else 'SUCCEEDED, but is listed'}: {took}\n{output[-3000:]}")
    return False


def environment(path: Path) -> dict[str, str]:
    """The variables that a sample reads, with entities that are made for it, and that have messages."""
    namespace, unique = tooling.current[-1], uuid.uuid4().hex[:8]
    queue, sessions, topic = f"queue-{unique}", f"sessions-{unique}", f"topic-{unique}"
    client, key = namespace.client, key_of(namespace.database, tooling.KEY)
    client.create_queue(queue)
    client.create_queue(sessions, requires_session=True)
    client.create_topic(topic)
    client.create_subscription(topic, "subscription", requires_session="list_sessions" in path.name)
    client.queue(queue).send_batch([Message(f"message {n}") for n in range(3)])
    client.topic(topic).send(Message("message", session_id="session"))
    names = {
        "CONNECTION_STR": f"Endpoint=sb://{HOST}/;SharedAccessKeyName={tooling.KEY};SharedAccessKey={key}",
        "FULLY_QUALIFIED_NAMESPACE": HOST,
        "QUEUE_NAME": queue,
        "SESSION_QUEUE_NAME": sessions,
        "SESSION_ID": "session",
        "TOPIC_NAME": topic,
        "SUBSCRIPTION_NAME": "subscription",
        "SAS_POLICY": tooling.KEY,
        "SAS_KEY": key,
    }
    places = namespace.ports | {443: tooling.places[tooling.ADMINISTRATION, 443]}
    more = {"PGQUEUE_AZURE_PLACES": json.dumps(places), "PYTHONUNBUFFERED": "1"}
    return os.environ | more | {f"SERVICEBUS_{name}": value for name, value in names.items()}


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
