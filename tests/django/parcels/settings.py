"""A project with two databases, for the runner of Django's tests."""

from __future__ import annotations

import os

from tests.django.settings import *  # noqa: F403 - settings are taken over so
from tests.django.settings import INSTALLED_APPS as APPS
from tests.django.settings import database

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PGQUEUE_SCHEMA = os.environ.get("PARCELS_SCHEMA", "pgqueue")
INSTALLED_APPS = [*APPS, "tests.django.parcels"]
MIGRATE = {"TEST": {"MIGRATE": "PGQUEUE_NO_MIGRATIONS" not in os.environ}}
DATABASES = {
    "default": database(os.environ["PGQUEUE_DSN"]) | MIGRATE,
    "other": database(os.environ["PGQUEUE_OTHER_DSN"]) | MIGRATE,
}
