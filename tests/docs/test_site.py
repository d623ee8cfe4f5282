"""The documentation site is built without a warning, from this repository alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Elements whose target a browser loads without being asked.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return target


class Tags(HTMLParser):
    """The addresses on a page: what it loads, and where its links lead."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if address := values.get(LOADED.get(tag, "")):
            self.loaded.append(address)
        if tag == "a" and (address := values.get("href")):
            self.links.append(address)


def pages(site: Path) -> Iterator[tuple[Path, Tags]]:
    for page in site.rglob("*.html"):
        if page.name != "404.html":  # its addresses are those of a server's root
            yield page, Tags(page)


@pytest.mark.core
def test_a_page_loads_nothing_from_elsewhere_and_its_links_lead_somewhere(site: Path) -> None:
    found = list(pages(site))
    assert len(found) > 100
    for page, tags in found:
        assert [address for address in tags.loaded if re.match(r"\w+:|//", address)] == [], page
        inner = [link for link in [*tags.loaded, *tags.links] if not re.match(r"\w+:|#", link)]
        missing = [link for link in inner if not (page.parent / re.split("[#?]", link)[0]).exists()]
        assert missing == [], page


def test_files_outside_of_docs_are_pages_when_pages_link_to_them(site: Path) -> None:
    assert "every_second.py" in (site / "examples" / "every_second.py.html").read_text()
    assert 'href="sql.html">The SQL of pgqueue<' in (site / "guide.html").read_text()


def test_the_search_works_from_files(site: Path) -> None:
    assert "iframe-worker" in (site / "index.html").read_text()
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = ")


def test_llms_txt_lists_pages_that_are_there(site: Path) -> None:
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", (site / "llms.txt").read_text(), re.MULTILINE)
    assert {"tutorial.md", "reference.md", "sql.md"} < set(listed)
    assert [page for page in listed if not (site / page).is_file()] == []
    for page in site.glob("*.md"):
        links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page
    assert "# Comparison" in (site / "llms-full.txt").read_text()
