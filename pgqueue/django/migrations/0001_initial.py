"""pgqueue's schema, and models over its views. Changes of newer versions follow after each ``migrate``."""

from __future__ import annotations

from django.db import migrations, models

from pgqueue.django.installing import install, refuse_to_uninstall
from pgqueue.django.placing import view


class Migration(migrations.Migration):
    """The first one."""

    initial = True

    operations = [
        migrations.RunPython(install, refuse_to_uninstall),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("sequence_number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("queue", models.TextField()),
                ("dead_letter_reason", models.TextField()),
                ("dead_letter_error_description", models.TextField(null=True)),
                ("dead_lettered_at", models.DateTimeField()),
                ("delivery_count", models.IntegerField()),
                ("enqueued_time", models.DateTimeField()),
                ("message_id", models.TextField(null=True)),
                ("subject", models.TextField(null=True)),
                ("body", models.JSONField(null=True)),
            ],
            options={
                "db_table": view("dead_letters"),
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="QueuedMessage",
            fields=[
                ("sequence_number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("queue", models.TextField()),
            ],
            options={
                "verbose_name": "message",
                "db_table": view("messages"),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("ready", models.BigIntegerField()),
                ("locked", models.BigIntegerField()),
                ("scheduled", models.BigIntegerField()),
                ("deferred", models.BigIntegerField()),
                ("dead_letters", models.BigIntegerField()),
                ("oldest_age", models.DurationField(null=True)),
                ("is_exact", models.BooleanField()),
                ("status", models.TextField()),
            ],
            options={
                "db_table": view("queues"),
                "managed": False,
            },
        ),
    ]
