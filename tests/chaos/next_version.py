"""A synthetic next version of pgqueue: this one with a further revision, and with other functions and indexes.

It changes what versions may change: columns are added to tables and to the type of received messages, a helper is
replaced by one with another name, verbs get further arguments, and there is an index on messages.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pgqueue.schema import files

REVISION = "9000_synthetic"

#: The queue first, as verbs lock the two: otherwise senders and the migration deadlock.
TABLES = """
alter table pgqueue.queue add column notes integer not null default 0;
alter table pgqueue.message add column note text;
alter type pgqueue.received_message add attribute note text;
create table pgqueue.note (queue_id integer not null);
"""

INDEX = """\
-- Finds messages with notes.
create index concurrently if not exists message_note on pgqueue.message (queue_id, note) where note is not null;
"""

#: Helpers that the next version calls by another name: in a migration the old ones go while they are called.
RENAMED = ("_complete_any", "_take_turn")

ARGUMENT = "note text default null"


def make(directory: Path) -> Path:
    """Copy this version into a directory, and make the next one of it."""
    library = directory / "next"
    ignored = shutil.ignore_patterns("__pycache__", "_sql", "_migrations")
    shutil.copytree(files.PACKAGE, library / "pgqueue", ignore=ignored)
    for name in ("sql", "migrations"):
        shutil.copytree(files.folder(name), library / name, ignore=ignored)
    _add_revision(library / "migrations" / "versions")
    (library / "sql" / "indexes" / "message_note.sql").write_text(INDEX)
    for path in (library / "sql" / "functions").rglob("*.sql"):
        _change(path)
    return library


def _add_revision(versions: Path) -> None:
    newest = (versions / f"{files.head()}.py").read_text()
    after = re.sub(r"(?m)^down_revision = .*$", f'down_revision = "{files.head()}"', newest)
    after = after.replace(f'\nrevision = "{files.head()}"', f'\nrevision = "{REVISION}"')
    (versions / f"{REVISION}.py").write_text(after)
    (versions / f"{REVISION}.sql").write_text(TABLES)


def _change(path: Path) -> None:
    text = path.read_text()
    for name in RENAMED:
        text = re.sub(rf"\b{name}\b", f"{name}_next", text)
    if path.stem in RENAMED:
        path.unlink()
        path = path.with_stem(f"{path.stem}_next")
    if path.stem in ("complete", "receive", "send"):
        text = re.sub(r"(\n    -- end)?\n?\)\nreturns ", f", {ARGUMENT})\nreturns ", text, count=1)
    elif path.stem == "_as_received":
        text = re.sub(r"\s+-- end\s+\)::", ", message.note)::", text)
    elif path.stem == "_dead_letter_as_received":
        text = re.sub(r"\s+-- end\s+\)::", ", null)::", text)
    path.write_text(text)
