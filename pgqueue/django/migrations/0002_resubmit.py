"""The permission to resubmit dead letters; nothing changes in the database but for its row."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Django creates permissions itself, at the end of ``migrate``."""

    dependencies = [("pgqueue", "0001_initial")]

    operations = [
        migrations.AlterModelOptions(
            name="deadletter",
            options={"managed": False, "permissions": (("resubmit_deadletter", "Can resubmit dead letter"),)},
        ),
    ]
