"""The dashboard in a real browser. ``PGQUEUE_PICTURES=docs/pictures`` remakes the pictures of the documentation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pgqueue import Message, QueueClient
from pgqueue.testing import Database
from tests.dashboard.scene import fill
from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = os.environ.get("PGQUEUE_PICTURES")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
PAGES = (
    "/",
    "/?q=nothing",
    "/queue?name=orders",
    "/queue?name=audit-trail",
    "/messages?queue=orders",
    "/messages?queue=orders&state=DEAD_LETTERED",
    "/messages?queue=orders&state=SCHEDULED",
    "/message?queue=orders&number=1",
    "/confirm?action=purge&queue=orders",
    "/topics",
    "/topic?name=events",
    "/topic?name=returns",
    "/schedules",
    "/schedules?state=LATE",
    "/workers",
    "/audit",
    "/sign-in",
    "/nowhere",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here, which .ci/run installs")


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, served: str, **settings: object) -> tuple[Page, list[str]]:
    """A page of a browser, and what it complains about, such as what the content security policy stops."""
    page = browser.new_context(base_url=served, viewport={"width": 1280, "height": 820}, **settings).new_page()  # type: ignore[arg-type]  # mypy does not look into **
    page.set_default_timeout(PATIENCE * 1000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    return page, complaints


def drawn(page: Page) -> None:
    """Waits for the charts of a page, if it has any."""
    if page.locator("[data-samples]").count():
        page.wait_for_selector("[data-drawn]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_complains_of_nothing(
    shop: QueueClient, served: str, browser: Browser, scheme: str
) -> None:
    page, complaints = opened(browser, served, color_scheme=scheme)
    for path in PAGES:
        page.goto(path)
        drawn(page)
        violations = Axe().run(page, options=RULES)["violations"]
        assert violations == [], (path, [(each["id"], each["nodes"][0]["html"]) for each in violations])
    assert [each for each in complaints if "404" not in each] == []


def test_a_narrow_screen_scrolls_tables_and_nothing_else(shop: QueueClient, served: str, browser: Browser) -> None:
    page, _ = opened(browser, served)
    page.set_viewport_size({"width": 360, "height": 740})
    for path in PAGES:
        page.goto(path)
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.core
def test_dead_letters_are_selected_and_resubmitted_by_keyboard(
    shop: QueueClient, served: str, browser: Browser
) -> None:
    dead = len(shop.queue("orders").dead_letters.peek(max_messages=99))
    page, complaints = opened(browser, served)
    page.goto("/messages?queue=orders&state=DEAD_LETTERED")
    page.keyboard.press("/")
    expect(page.get_by_label("Subject", exact=True)).to_be_focused()
    page.get_by_label("Select all").focus()
    page.keyboard.press("Space")
    expect(page.get_by_text(f"{dead} of {dead} selected")).to_be_visible()
    page.get_by_role("button", name="Resubmit selected").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"Give {dead} messages back to orders?")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text(f"Resubmit dead letters: {dead} messages resubmitted.")
    assert shop.queue("orders").dead_letters.peek() == []
    assert complaints == []


def test_reading_and_acting_work_without_javascript(shop: QueueClient, served: str, browser: Browser) -> None:
    page, _ = opened(browser, served, java_script_enabled=False)
    page.goto("/")
    page.get_by_role("link", name="orders").first.click()
    expect(page.get_by_text("The last samples as a table")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Pause the queue").click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    assert shop.get_queue("orders").paused_at is not None


def test_topics_and_schedules_are_read_without_javascript(shop: QueueClient, served: str, browser: Browser) -> None:
    page, _ = opened(browser, served, java_script_enabled=False)
    page.goto("/")
    page.get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="events").click()
    page.get_by_role("row", name="large").get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_text("AmountUnknown")).to_be_visible()
    page.get_by_role("link", name="Schedules").click()
    page.get_by_role("link", name="failing").click()
    expect(page.get_by_role("rowheader")).to_have_text(["export"])


def test_figures_are_refreshed_when_messages_come(client: QueueClient, served: str, browser: Browser) -> None:
    client.create_queue("orders")
    page, complaints = opened(browser, served)
    page.goto("/")
    ready = page.locator(".tiles dd").first
    expect(ready).to_have_text("0")
    client.queue("orders").send(Message(1))
    expect(ready).to_have_text("1", timeout=PATIENCE * 1000)
    assert complaints == []


@pytest.mark.skipif(PICTURES is None, reason="PGQUEUE_PICTURES names no directory for the pictures")
def test_pictures_are_made(database: Database, client: QueueClient, served: str, browser: Browser) -> None:
    fill(database, client, minutes=50)
    for scheme in ("light", "dark"):
        page, _ = opened(browser, served, color_scheme=scheme)
        for name, path in (("queues", "/"), ("queue", "/queue?name=orders")):
            page.goto(path)
            drawn(page)
            page.screenshot(path=Path(str(PICTURES)) / f"dashboard-{name}-{scheme}.png")
