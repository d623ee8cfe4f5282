"""``pgqueue dashboard``: what it refuses before it listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgqueue.cli.exit_codes import WRONG_USE
from tests.cli.command_line import CommandLine


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0", "--writable"], "without any sign-in"),
        (["--accounts", "accounts", "--trusted-proxy", "10.0.0.2"], "is not role:hash"),
        (["--proxy-header", "X-Remote-User", "--accounts", "empty"], "has no account"),
    ],
)
def test_options_that_would_leave_the_dashboard_open_are_refused(
    pgqueue: CommandLine, tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "accounts").write_text("ann:secret\n")
    (tmp_path / "empty").write_text("# nobody\n")
    ended = pgqueue("dashboard", "--port", "0", *options)
    assert ended.code == WRONG_USE
    assert said in ended.err


@pytest.mark.parametrize("dsn", [[], ["--dsn", "postgresql://localhost:1/nowhere"]], ids=["no database", "unreachable"])
def test_a_line_for_the_file_of_accounts_is_printed(unconfigured: CommandLine, dsn: list[str]) -> None:
    ended = unconfigured("dashboard", "--hash-password", "ann", *dsn, stdin="secret\nsecret\n")
    assert ended.code == 0
    assert "ann:$argon2id$" in ended.out
