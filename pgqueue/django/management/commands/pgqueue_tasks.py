"""``manage.py pgqueue_tasks``: a worker that runs tasks of Django's Tasks framework."""

from __future__ import annotations

import sys
from argparse import REMAINDER
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from pgqueue.cli.running import run
from pgqueue.django import dsn
from pgqueue.django.placing import program, schema


class Command(BaseCommand):
    """Runs ``pgqueue worker`` on the queues of a backend."""

    help = "Runs the tasks of a backend, as in: manage.py pgqueue_tasks default --concurrency 4"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the backend, and leave everything else to ``pgqueue worker``."""
        parser.add_argument("--queue", action="append", help="A queue to serve, by default all of QUEUES; repeatable.")
        parser.add_argument("backend", help="The backend, by its name in TASKS.")
        parser.add_argument("arguments", nargs=REMAINDER, help="Options of `pgqueue worker`.")

    def handle(self, *_: Any, backend: str, queue: list[str] | None, arguments: list[str], **__: Any) -> None:
        """Run the worker, and exit with its code."""
        from pgqueue.django.tasks import backend_named

        found = backend_named(backend)
        if found is None:
            raise CommandError(f"TASKS has no backend {backend!r} of pgqueue.django.tasks.PGQueueBackend")
        queues = queue or sorted(found.queues)
        if not queues:
            raise CommandError(f"QUEUES of the backend {backend!r} is empty: name the queues to serve by --queue")
        place = ["--dsn", dsn(found.database), "--schema", schema()]
        sys.exit(
            run([*place, "worker", "pgqueue.django.worker:run_task", *queues, *arguments], program(found.database))
        )
