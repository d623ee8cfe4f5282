"""The SQL on the pages runs, statement by statement, as a reader types it.

The reader copies the number and the token of a message from what was printed before: on a page they are examples.
"""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from pgqueue.testing import Database
from tests.docs.snippets import snippets

TOKEN = re.compile(r"'[0-9a-f]{8}-[^']*'")
NUMBER = re.compile(r"\d+(?=, '[0-9a-f]{8}-)|(?<=array\[)4711(?=\])|(?<=reschedule\('orders', )4711")
NOTICE = re.compile(r"^-- NOTICE: +(.*)$", re.MULTILINE)
SCHEDULED_BY_CRON = re.compile(r"select cron\.schedule\('[^']+', '[^']+', '([^']+)'\);")

#: The state before the first statement of a page, besides the schema.
BEFORE = {
    "docs/command-line.md": "select pgqueue.create_queue('orders'); select pgqueue.send('orders', '7');"
    " select * from pgqueue.receive('orders')",
    "docs/dead-letters.md": "select pgqueue.create_queue('parcels'); select pgqueue.send('parcels', '7');"
    " select * from pgqueue.receive('parcels');"
    " select pgqueue.dead_letter('parcels', 4711, '0b6ffbc5-…', reason => 'AddressUnknown')",
    "docs/deferral.md": "select pgqueue.create_queue('steps'); select pgqueue.send('steps', '2');"
    " select * from pgqueue.receive('steps')",
    "docs/tasks.md": "select pgqueue.create_queue('parcels')",
    "docs/unique.md": "select pgqueue.create_queue('reports')",
    "docs/duplicates.md": "select pgqueue.create_queue('payments', requires_duplicate_detection => true)",
    "docs/expiry.md": "select pgqueue.create_queue('quotes')",
    "docs/guarantees.md": "select pgqueue.create_queue('orders'); create table shipped (id int);"
    " select pgqueue.send('orders', '7'); select * from pgqueue.receive('orders')",
    "docs/flow.md": "select pgqueue.create_queue('payments')",
    "docs/forwarding.md": "select pgqueue.create_queue('work'); select pgqueue.create_queue('graveyard')",
    "docs/guide.md": "select pgqueue.create_queue('orders'); create table shipped (id int)",
    "docs/history.md": "select pgqueue.create_queue('invoices')",
    "docs/how-to/on-call.md": "select pgqueue.create_queue('orders'); select pgqueue.create_queue('mails');"
    " select pgqueue.send('orders', '1'); select pgqueue.send('orders', '2', subject => 'mail');"
    " select pgqueue.schedule('orders', '7', at => now() + interval '1 year')",
    "docs/limits.md": "select pgqueue.create_queue('uploads')",
    "docs/batches.md": "select pgqueue.create_queue('orders'); select pgqueue.create_queue('reports')",
    "docs/results.md": "select pgqueue.create_queue('totals')",
    "docs/schedules.md": "select pgqueue.create_queue('reports')",
    "docs/scheduling.md": "select pgqueue.create_queue('reminders')",
    "docs/sessions.md": "select pgqueue.create_queue('steps', requires_session => true)",
    "docs/single-messages.md": "select pgqueue.create_queue('orders'); select pgqueue.create_queue('mails');"
    " select pgqueue.send('orders', '1', subject => 'mail')",
    "docs/waking.md": "select pgqueue.create_queue('orders')",
}

#: Statements that are not run here, with the reason.
ELSEWHERE = {
    "docs/how-to/from-pgmq.md": "test_tutorial.py has the tables of PGMQ",
    "docs/how-to/from-procrastinate.md": "test_tutorial.py has the tables of Procrastinate",
    "docs/spark-report.md 2 sql": "it is for DuckDB, and reads what Spark has written",
}

SQL = [each for each in snippets() if each.language == "sql"]
PAGES = sorted({each.page for each in SQL if each.page not in ELSEWHERE})


class Psql:
    """A user of psql, who remembers the last number and the last token that were printed."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection
        self._number = self._token = ""
        self.notices: list[str] = []
        connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary or ""))

    def type(self, script: str) -> None:
        for statement in statements(script):
            typed = NUMBER.sub(self._number, statement)
            typed = TOKEN.sub(f"'{self._token}'", typed)
            ran = self._connection.execute(typed.encode())
            row = (ran.fetchone() if ran.description else None) or {}
            self._number = str(row.get("sequence_number") or row.get("send") or row.get("schedule") or self._number)
            self._token = str(row.get("lock_token") or self._token)


def statements(script: str) -> list[str]:
    """The statements of a script, without comments; each ends at the end of a line."""
    script = re.sub(r" *--.*$", "", SCHEDULED_BY_CRON.sub(r"\1;", script), flags=re.MULTILINE)
    return [each.strip() for each in re.split(r";\s*(?:\n|$)|; (?=select|create)", script) if each.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_the_sql_of_a_page_runs_from_top_to_bottom(page: str, database: Database) -> None:
    with connected(database) as connection:
        reader = Psql(connection)
        reader.type(BEFORE.get(page, ""))
        for snippet in SQL:
            if snippet.page == page and str(snippet) not in ELSEWHERE:
                reader.type(snippet.text)
                said = [without_numbers(notice) for notice in reader.notices]
                assert all(without_numbers(notice) in said for notice in NOTICE.findall(snippet.text))


def test_the_messages_that_are_wanted_are_moved_and_the_others_are_as_before(database: Database) -> None:
    page = "docs/how-to/on-call.md"
    (move,) = [each.text for each in SQL if each.page == page and "move_messages" in each.text]
    with connected(database) as connection:
        reader = Psql(connection)
        reader.type(BEFORE[page])
        for _ in range(2):  # the second time there is nothing to move
            reader.type(move)
        there = connection.execute("select queue, body, subject, delivery_count from pgqueue.messages order by queue")
        assert [tuple(row.values()) for row in there] == [("mails", 2, "mail", 0), ("orders", 1, None, 0)]


def connected(database: Database) -> psycopg.Connection[DictRow]:
    return psycopg.Connection[DictRow].connect(database.direct, autocommit=True, row_factory=dict_row)


def without_numbers(notice: str) -> str:
    return re.sub(r"(?<=message )\d+", "…", notice)


def test_the_tables_of_pages_name_existing_pages() -> None:
    known: set[str] = {str(each) for each in SQL} | {each.page for each in SQL}
    assert {*BEFORE, *ELSEWHERE} <= known


def test_a_reader_runs_what_cron_would_run() -> None:
    assert statements("select cron.schedule('a', '* * * * *', 'call pgqueue.sweep_all()');") == [
        "call pgqueue.sweep_all()"
    ]


def test_the_number_and_the_token_are_those_of_the_last_message(database: Database) -> None:
    with connected(database) as connection:
        reader = Psql(connection)
        reader.type(BEFORE["docs/command-line.md"])
        with pytest.raises(psycopg.Error, match="lock"):
            connection.execute("select pgqueue.complete('orders', 7, 'eafed119-1532-4d74-a345-2ec61f88bc50')")
        reader.type("select pgqueue.complete('orders', 7, 'eafed119-…');")
        assert connection.execute("select from pgqueue.messages").fetchall() == []
