"""The search of the site, in a browser: the page on a matter is found before the decisions on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SITE = "http://docs.test/"
#: Search terms, and the page that each finds. Some of these have decisions with the word in their titles.
FOUND = {
    "django": "django.html",
    "test": "how-to/testing.html",
    "sessions": "sessions.html",
    "dead letters": "dead-letters.html",
    "topics": "topics.html",
    "forwarding": "forwarding.html",
    "workers": "workers.html",
    "schedules": "schedules.html",
    "notifications": "notifications.html",
    "dashboard": "dashboard.html",
    "doctor": "doctor.html",
    "spark": "spark.html",
}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here, which .ci/run installs")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser that takes the site from a directory."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 820})
        page.set_default_timeout(PATIENCE * 1000)
        page.route(f"{SITE}**", lambda route: route.fulfill(path=target / route.request.url.removeprefix(SITE)))
        yield page
        browser.close()


@pytest.mark.parametrize("words", FOUND)
def test_the_page_on_a_matter_is_the_first_hit(page: Page, words: str) -> None:
    page.goto(f"{SITE}index.html")
    page.locator("[data-md-component=search-query]").press_sequentially(words)
    found = page.locator(".md-search-result__link").first  # of the words typed so far, until the last results are there
    address = re.compile(rf"^{re.escape(SITE + FOUND[words])}(\?|$)")
    expect(found).to_have_attribute("href", address, timeout=PATIENCE * 1000)
