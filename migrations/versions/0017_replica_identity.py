"""How a publication identifies the rows of sessions that wait.

Forward only, like every revision here: a restored backup goes back, a script would guess.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0017_replica_identity"
down_revision = "0016_state_times"


def upgrade() -> None:
    # Frozen text, and sent as it is: without parameters a percent sign is only a percent sign.
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text, execution_options={"no_parameters": True})
