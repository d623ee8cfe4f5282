"""Synthetic next versions of pgqueue: this one with a further revision, with other functions, indexes and statements.

Each changes what a version may change. Columns are added to tables and to the type of received messages, helpers are
replaced by ones with another name, verbs get further arguments, which `receive` stores, and there is an index on
messages. Version 2 has a verb `browse` beside `peek`, which its client no longer calls; version 3 drops `peek`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pgqueue.schema import files
from pgqueue.testing.clock import INSTALL

#: Verbs lock the queue first.
TABLES = """
alter table pgqueue.message add column note_{number} text;
alter table pgqueue.queue add column notes_{number} integer not null default 0;
alter type pgqueue.received_message add attribute note_{number} text;
create table pgqueue.note_{number} (queue_id integer not null);
"""

INDEX = """\
-- Finds messages with notes.
create index concurrently if not exists message_note_{number} on pgqueue.message (queue_id, note_{number})
 where note_{number} is not null;
"""

#: Helpers that each version calls by another name: in a migration the old ones go while they are called.
RENAMED = ("_complete_any", "_take_turn")

#: The verb that version 3 drops, and its successor, which version 2 has, too.
DROPPED, SUCCESSOR = "peek", "browse"

#: The verb that a version drops with no successor that others know, as no version may, and its new name.
BROKEN, BREAKING = "complete", "finish"

MOVABLE_CLOCK = INSTALL[INSTALL.index("create or replace function") :]

RECEIVING = re.compile(r'(\{"queue": name)[^}]*(\},\n +max_messages=max_messages,\n +lock_duration=)')


def revision(number: int) -> str:
    """The revision of a version, the next one being version 2."""
    return f"{8998 + number}_synthetic"


REVISION = revision(2)


def make(
    directory: Path, number: int = 2, base: Path | None = None, *, movable: bool = False, breaking: bool = False
) -> Path:
    """Copy the version before into a directory, by default this one, and make version ``number`` of it.

    The clock of one that is ``movable`` is that of ``pgqueue.testing``. One that is ``breaking`` drops a verb that
    clients of the version before call.
    """
    library = directory / f"version-{number}"
    ignored = shutil.ignore_patterns("__pycache__", "_sql", "_migrations")
    shutil.copytree(base / "pgqueue" if base else files.PACKAGE, library / "pgqueue", ignore=ignored)
    for name in ("sql", "migrations"):
        shutil.copytree(base / name if base else files.folder(name), library / name, ignore=ignored)
    verbs = library / "sql" / "functions" / "verbs"
    _add_revision(library / "migrations" / "versions", number, revision(number - 1) if base else files.head())
    (library / "sql" / "indexes" / f"message_note_{number}.sql").write_text(INDEX.format(number=number))
    if movable:
        (verbs / "clock.sql").write_text(MOVABLE_CLOCK)
    if number == 2:
        _rename(library, DROPPED, SUCCESSOR)
    else:
        (verbs / f"{DROPPED}.sql").unlink()
    if breaking:
        _rename(library, BROKEN, BREAKING)
        (verbs / f"{BROKEN}.sql").unlink()
    for path in (library / "sql" / "functions").rglob("*.sql"):
        _change(path, number)
    _pass_notes(library / "pgqueue" / "statements", number)
    return library


def _add_revision(versions: Path, number: int, before: str) -> None:
    newest = (versions / f"{before}.py").read_text()
    after = re.sub(r"(?m)^down_revision = .*$", f'down_revision = "{before}"', newest)
    after = after.replace(f'\nrevision = "{before}"', f'\nrevision = "{revision(number)}"')
    (versions / f"{revision(number)}.py").write_text(after)
    (versions / f"{revision(number)}.sql").write_text(TABLES.format(number=number))


def _rename(library: Path, verb: str, successor: str) -> None:
    """Have a verb under another name, too, and the client call it by that."""
    verbs, statements = library / "sql" / "functions" / "verbs", library / "pgqueue" / "statements"
    text = (verbs / f"{verb}.sql").read_text()
    (verbs / f"{successor}.sql").write_text(re.sub(rf"\b{verb}(?=[.(])", successor, text))
    signatures = (statements / "signatures.py").read_text()
    (statements / "signatures.py").write_text(signatures.replace(f'    "{verb}": {{', f'    "{successor}": {{'))
    for path in statements.glob("*.py"):
        path.write_text(path.read_text().replace(f"pgqueue.{verb}(…", f"pgqueue.{successor}(…"))


def _change(path: Path, number: int) -> None:
    text, note = path.read_text(), f"note_{number}"
    for name in RENAMED:
        text = re.sub(rf"\b{name}(_\d)?\b", f"{name}_{number}", text)
    if (renamed := re.sub(r"_\d$", "", path.stem)) in RENAMED:
        path.unlink()
        path = path.with_stem(f"{renamed}_{number}")
    if path.stem in (BROKEN, BREAKING, "receive", "send"):
        text = re.sub(r"(\n    -- end)?\n?\)\nreturns ", f", {note} text default null)\nreturns ", text, count=1)
    elif path.stem == "_as_received":
        text = re.sub(r"(\s+-- end\s+)?\)::", f", message.{note})::", text)
    elif path.stem == "_dead_letter_as_received":
        text = re.sub(r"(\s+-- end\s+)?\)::", ", null)::", text)
    elif path.stem == "_scheduled_as_message":
        text = re.sub(r"(\s+-- end)?\s*;\n\$\$", ", null::text;\n$$", text)
    if path.stem == "receive":
        counted = "delivery_count  = delivery_count + 1,"
        text = text.replace(counted, f"{counted} {note} = coalesce(receive.{note}, {note}),")
    path.write_text(text)


def _pass_notes(statements: Path, number: int) -> None:
    """Have the client pass the argument of ``receive`` that is new."""
    signatures, receiving = statements / "signatures.py", statements / "receiving.py"
    taken: Sequence[str] = signatures.read_text().partition('    "receive": {\n')
    signatures.write_text(f'{taken[0]}{taken[1]}        "note_{number}": "text",\n{taken[2]}')
    noted = rf'\1, "note_{number}": "received by version {number}"\2'
    receiving.write_text(RECEIVING.sub(noted, receiving.read_text(), count=1))
