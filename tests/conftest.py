"""What all tests share: the fixtures of pgqueue.testing, and how hard hypothesis tries."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["pgqueue.testing", "pytester"]

# More with `--hypothesis-profile=thorough`. No deadline: the database's turn is not the test's.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=2_000)
settings.load_profile("default")
