"""The page about tests: its files are written, and pytest runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pgqueue.testing.plugin import SharedServer
from tests.docs.snippets import ROOT, snippets
from tests.patience import PATIENCE

FILES = {
    str(each.title): each.text
    for each in snippets()
    if each.page == "docs/how-to/testing.md" and each.language == "python" and "/" not in str(each.title)
}


def test_the_tests_on_the_page_pass(database_server: SharedServer, tmp_path: Path) -> None:
    assert {"conftest.py", "test_shop.py", "test_coroutines.py", "test_web.py"} <= set(FILES)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    environment = os.environ | {"PGQUEUE_TEST_DSN": database_server.dsn, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", str(tmp_path), "."],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("\ntest_") == sum(name.startswith("test_") for name in FILES)
