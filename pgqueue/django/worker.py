"""The handler of ``manage.py pgqueue_tasks``: a process of a worker imports this and nothing else."""

from __future__ import annotations

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from pgqueue.django.tasks import run_task

__all__ = ["run_task"]
