"""One call of each verb, in ``examples/<verb>.sql``: psql runs it as it is, with its variables set.

The first line names the right that the call takes. The variables are those of :class:`tests.sql.house.House`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

EXAMPLES_FOLDER = Path(__file__).parent / "examples"

HEADER = re.compile(r"-- (?P<right>[A-Z]+)(?P<all> of all queues)?(?:: .*)?\n")


@dataclass(frozen=True)
class Example:
    """A call of a verb."""

    verb: str
    text: str

    @property
    def right(self) -> str:
        """The right that it takes."""
        return self._header["right"]

    @property
    def is_of_all_queues(self) -> bool:
        """Whether the right must be that to all queues."""
        return self._header["all"] is not None

    @property
    def statement(self) -> str:
        """The call with the placeholders of psycopg."""
        return re.sub(r":'(\w+)'", r"%(\1)s", self.text)

    @property
    def _header(self) -> re.Match[str]:
        found = HEADER.match(self.text)
        assert found, f"examples/{self.verb}.sql does not begin with the right that the call takes"
        return found


EXAMPLES = {path.stem: Example(path.stem, path.read_text()) for path in sorted(EXAMPLES_FOLDER.glob("*.sql"))}
