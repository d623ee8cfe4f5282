"""The texts that a message keeps, each with a value of its own, for tests that shall find every one."""

from __future__ import annotations

from typing import Any

from pgqueue.model.columns import KEPT_TEXTS, STAGED

TEXT_VALUES: dict[str, Any] = {column.name: f"the {column.name}" for column in KEPT_TEXTS}

# Of a session, it is the session.
TEXT_VALUES["partition_key"] = TEXT_VALUES["session_id"]

STAGED_VALUES: dict[str, Any] = {
    column.name: TEXT_VALUES[column.name] for column in STAGED if column.name in TEXT_VALUES
}
