"""The app of Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class PGQueueConfig(AppConfig):
    """``"pgqueue.django"`` in ``INSTALLED_APPS``."""

    name = "pgqueue.django"
    label = "pgqueue"
    verbose_name = "pgqueue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Follow what Django does to databases: migrates and flushes them, and copies and drops them in tests."""
        from pgqueue.django.following import close_before_databases_change
        from pgqueue.django.installing import migrate_or_empty

        post_migrate.connect(migrate_or_empty, sender=self)
        connection_created.connect(close_before_databases_change)
