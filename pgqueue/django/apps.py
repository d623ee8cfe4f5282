"""The app of Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PGQueueConfig(AppConfig):
    """``"pgqueue.django"`` in ``INSTALLED_APPS``."""

    name = "pgqueue.django"
    label = "pgqueue"
    verbose_name = "pgqueue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let each ``manage.py migrate`` bring what newer versions of pgqueue have changed."""
        from pgqueue.django.installing import migrate_to_head

        post_migrate.connect(migrate_to_head, sender=self)
