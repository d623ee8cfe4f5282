"""A verb asks what its caller may do: the checks that many verbs rely on, and those within a statement."""

from __future__ import annotations

from functools import partial

from tests.sql.test_roles import a_role_may_do_what_it_was_granted
from tests.sql.twins.twin import Twin

by_a_sender = partial(a_role_may_do_what_it_was_granted, kind="sender")
by_a_receiver = partial(a_role_may_do_what_it_was_granted, kind="receiver")
by_a_sender_that_logged_in = partial(by_a_sender, become="session authorization")
by_a_receiver_that_logged_in = partial(by_a_receiver, become="session authorization")

DIRECT = ["complete", "complete_batch", "pin", "pin_batch", "abandon", "renew_lock", "renew_lock_batch"]

TWINS = [
    *(
        Twin(verb, text, without, by)
        for verb, granted, by in [
            ("send", "_may_send(target.senders)", by_a_receiver),
            ("receive", "_may_receive(source.receivers)", by_a_sender),
        ]
        for text, without in [
            (f"\n       or not pgqueue.{granted}", ""),
            (f"if not pgqueue.{granted} then", "if false then"),
        ]
    ),
    Twin("send_batch", " and pgqueue._may_send(target.senders)", "", by_a_receiver),
    Twin("send_batch", "if not pgqueue._may_send(target.senders) then", "if false then", by_a_receiver),
    *(Twin(verb, " and pgqueue._may_receive(receivers)", "", by_a_sender) for verb in DIRECT),
    Twin("_find_queue", "if not pgqueue._permits(needed, known) then", "if false then", by_a_sender),
    Twin("_check_consumer", "not pgqueue._may_receive(source.receivers)", "false", by_a_sender),
    *(
        Twin(function, text, without, by)
        for function, granted, by_set_role, by_login in [
            ("_may_send", "senders", by_a_receiver, by_a_receiver_that_logged_in),
            ("_may_receive", "receivers", by_a_sender, by_a_sender_that_logged_in),
        ]
        for text, without, by in [
            ("current_setting('role') = 'none'", "true", by_set_role),
            ("else false end", "end", by_set_role),
            ("pg_has_role(session_user, current_user, 'usage')", "true", by_login),
            (f"session_user = any ({granted})", "true", by_login),
        ]
    ),
    Twin("_is_member", "pg_has_role(pgqueue._caller(), oid, 'usage')", "true", by_a_sender),
    Twin(
        "_caller", "coalesce(nullif(current_setting('role'), 'none')::name, session_user)", "session_user", by_a_sender
    ),
]
