"""The settings of a project whose database the environment names."""

from __future__ import annotations

import os

import django
from psycopg.conninfo import conninfo_to_dict


def database(dsn: str) -> dict[str, object]:
    known = conninfo_to_dict(dsn)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{name: str(known[key]) for name, key in names.items() if key in known},
    }


SECRET_KEY = "no secret"
USE_TZ = True
ROOT_URLCONF = "tests.django.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    *([] if django.VERSION >= (6, 0) else ["django_tasks"]),
    "pgqueue.django",
]
TASKS = {
    "default": {"BACKEND": "pgqueue.django.tasks.PGQueueBackend", "QUEUES": ["default", "mail"]},
    "kept": {
        "BACKEND": "pgqueue.django.tasks.PGQueueBackend",
        "QUEUES": ["kept"],
        "OPTIONS": {"results": True},
    },
    "other": {
        "BACKEND": "pgqueue.django.tasks.PGQueueBackend",
        "QUEUES": ["default"],
        "OPTIONS": {"database": "other"},
    },
}
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = (
    {name: database(os.environ["PGQUEUE_DSN"]) for name in ("default", "other")} if "PGQUEUE_DSN" in os.environ else {}
)
