"""No setting of a session changes a function."""

from __future__ import annotations

from tests.sql import test_search_path
from tests.sql.twins.twin import Twin

PINNED = " set search_path = pg_catalog, pg_temp"

TWINS = [
    Twin("send", PINNED, "", test_search_path.a_send_calls_what_postgresql_has),
    Twin("send_batch", PINNED, "", test_search_path.a_send_calls_what_postgresql_has),
    Twin("sweep", PINNED, "", test_search_path.every_function_is_pinned),
]
