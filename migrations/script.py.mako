"""${message}"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    # Frozen text, and sent as it is: without parameters a percent sign is only a percent sign.
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text, execution_options={"no_parameters": True})
