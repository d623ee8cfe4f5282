from __future__ import annotations

from pgqueue import QueueClient
from tests.cli.command_line import CommandLine


def test_messages_are_sent_to_sessions_which_are_listed(pgqueue: CommandLine, client: QueueClient) -> None:
    assert pgqueue("queue", "create", "steps", "--requires-session", "--json").document["requires_session"]
    assert "no session of steps" in pgqueue("sessions", "steps").err
    pgqueue("send", "steps", '{"n": 1}', "--session-id", "customer-7")
    (session,) = pgqueue("sessions", "steps", "--json").document
    assert (session["session_id"], session["is_locked"], session["messages"]) == ("customer-7", False, 1)
    with client.queue("steps").accept_session("customer-7") as held:
        held.set_state({"last": 0})
        assert "customer-7" in pgqueue("sessions", "steps").out
        (peeked,) = pgqueue("peek", "steps", "--json").document
        assert peeked["session_id"] == "customer-7"
