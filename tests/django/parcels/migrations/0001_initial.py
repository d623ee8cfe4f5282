"""The model, and a queue: made by the client, whose pool is open when the test database is copied or dropped."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

import pgqueue.django


def create_queue(_apps: Any, schema_editor: Any) -> None:
    pgqueue.django.client(schema_editor.connection.alias).create_queue("parcels", exist_ok=True)


class Migration(migrations.Migration):
    initial = True
    dependencies = [("pgqueue", "0001_initial")]
    operations = [
        migrations.CreateModel(
            "Parcel",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("number", models.IntegerField(unique=True)),
                ("is_delivered", models.BooleanField(default=False)),
            ],
        ),
        migrations.RunPython(create_queue),
    ]
