"""Writes the synchronous face from the asynchronous one: ``await`` can be left out by rule, but not put in.

Where the faces differ by nature, both files have a block with the same marks, and each keeps its own::

    # this face only: how the state is looked up
    # end

Only what is true once a lock is lost is written by hand in both faces, as ``lock_lost``.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.text import ROOT, formatted

PACKAGE = ROOT / "pgqueue"

#: The files of the asynchronous face, and what they are in the synchronous one.
FILES = {
    "__init__.py": "public.py",
    "auto_lock_renewer.py": "leases/auto_lock_renewer.py",
    "batch.py": "batch.py",
    "client.py": "client.py",
    "interceptor.py": "interceptor.py",
    "notifications.py": "notifications/__init__.py",
    "queue.py": "queue.py",
    "received.py": "received.py",
    "receiver.py": "receiver.py",
    "sender.py": "sender.py",
    "session.py": "session.py",
    "task.py": "worker/task.py",
    "topic.py": "topic.py",
    "testing.py": "testing/draining.py",
    "transmitter.py": "notifications/transmitter.py",
    "worker.py": "worker/worker.py",
}

#: Modules that have another place.
MODULES = {
    "pgqueue.aio.auto_lock_renewer": "pgqueue.leases.auto_lock_renewer",
    "pgqueue.aio.lock_lost": "pgqueue.model.lock_lost",
    "pgqueue.aio.task": "pgqueue.worker.task",
    "pgqueue.aio.worker": "pgqueue.worker.worker",
    "pgqueue.aio.transmitter": "pgqueue.notifications.transmitter",
    "pgqueue.worker.tasks": "pgqueue.worker.threads",
}

#: In this order: regular expressions, and what they become.
SUBSTITUTIONS = [
    (r"await asyncio\.to_thread\(([\w.]+)(?:, )?", r"\1("),
    (r"import asyncio\n", ""),
    (r"\basyncio\.Event\b", "threading.Event"),
    (r"  # noqa: ASYNC109[^\n]*", ""),
    (r"await adrive\(", "drive("),
    (r"\badrive\b", "drive"),
    (r"\b([Aa])n(\s+``)async with\b", r"\1\2with"),
    (r"\b(await|async) (?!lock_lost)", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAwaitable, ", ""),
    (r"\bAsync(\w+) as \1\b", r"\1"),
    (r"(\b|(?<=Gives)|(?<=Abstract))Async(?=[A-Z])", ""),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\basynchronous=True\b", "asynchronous=False"),
    (r"\b_asynchronous = True\b", "_asynchronous = False"),
    (r"\bTaskDriver\b", "ThreadDriver"),
    (r"\ban asynchronous (?=test\b)", "a "),
    (r"\basynchronous (?=iterator)", ""),
    (r"\basynchronous\b(?!=)", "synchronous"),
    (r"from(\s+)several tasks", r"from\1several threads"),
    *((rf"\b{re.escape(theirs)}\b", ours) for theirs, ours in MODULES.items()),
    (r"\bpgqueue\.aio\b", "pgqueue"),
]

#: Words of the asynchronous face, after these substitutions, and their counterparts in the synchronous one.
WORDS = [
    (": the same names and signatures, with methods to be awaited.", ": all public names, in one module."),
    (" synchronous receive loop", " receive loop"),
    (
        "or a connection or a pool of psycopg or\n        asyncpg.",
        "a pool of psycopg, or a connection of\n        psycopg or psycopg2.",
    ),
    (
        "asyncpg has none, and its ``transaction()`` is a savepoint there.",
        "Those of psycopg2 raise an error of its own.",
    ),
    ("a connection of asyncpg,", "a connection of psycopg2,"),
    ("    A blocked event loop does not stop the renewals.\n", ""),
    ("run by a task of its own", "run by a thread of its own"),
    ("Use it in one event loop, from any number of its tasks.", "Safe to use from several threads."),
    (
        "while a send is in flight.\n",
        """while a send is in flight. At the end of the program it
    waits for the sends in flight, as it does at the end of the block.
""",
    ),
    ("for others, pgqueue.testing", "for others, pgqueue.aio.testing"),
    ("``await lock_lost`` waits", "``lock_lost.wait(timeout)`` waits"),
    (
        """    The work is a coroutine function, or a plain function that does not block the event loop for long. If it
    returns an awaitable, that is awaited.

""",
        "",
    ),
    (
        """the work takes other arguments, is a generator function, or returned a generator; or the
            message was received with :mod:`pgqueue`. The message stays received.
""",
        """the work takes other arguments, is a coroutine function (use :func:`pgqueue.aio.process`)
            or a generator function, or it returned an awaitable or a generator; or the message was received with
            :mod:`pgqueue.aio`. The message stays received.
""",
    ),
    (
        """the handler takes other arguments or is a generator function, or the queue belongs to
            :mod:`pgqueue`; nothing was received.
""",
        """the handler takes other arguments, is a coroutine function or a generator function, or the
            queue belongs to :mod:`pgqueue.aio`; nothing was received.
""",
    ),
]

#: Imports that only the blocks of the synchronous face need.
IMPORTS = {
    "received.py": "from pgqueue.errors import PGQueueError\n",
    "sender.py": "import threading\nfrom pgqueue.errors import PGQueueError\n",
}

BLOCK = re.compile(r"^ *# this face only: .*?^ *# end$", re.DOTALL | re.MULTILINE)

#: Stands for a block while the rest is translated.
GAP = "# GAP #"

HEADER = "# Written by `make generate` from pgqueue/aio/{name}: change it there.\n"


def written(name: str) -> tuple[Path, str]:
    """The synchronous file of an asynchronous one, and what belongs in it."""
    path = PACKAGE / FILES[name]
    return path, synchronous(name, (PACKAGE / "aio" / name).read_text(), path.read_text(), path)


def synchronous(name: str, theirs: str, ours: str, path: Path) -> str:
    """The synchronous file: the asynchronous one by the rules, with the blocks that it has by hand."""
    text = translated(BLOCK.sub(GAP, theirs)).replace("from pgqueue", IMPORTS.get(name, "") + "from pgqueue", 1)
    first, *others = text.split(GAP)
    kept = zip(BLOCK.findall(ours), others, strict=True)
    return formatted(HEADER.format(name=name) + first + "".join(block + rest for block, rest in kept), path)


def translated(text: str) -> str:
    for pattern, replacement in SUBSTITUTIONS:
        text = re.sub(pattern, replacement, text)
    for theirs, ours in WORDS:
        text = text.replace(theirs, ours)
    return text
