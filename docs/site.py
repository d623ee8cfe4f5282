"""Additions to mkdocs, to make the site of these pages: pages from outside of docs/, their links, and llms.txt.

Pages link to files as a Git host has them, `../sql/README.md` or `../examples/orders.sql`. The site has each of those
that is linked to: Markdown as a page, other files as a page with their text. So no link leaves the site, which needs no
address of the repository, and no network.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
COMMENT = re.compile(r"^<!--.*-->$", re.MULTILINE)
CODE_IN_TABLE = re.compile(r"(?<=[| ])`[^`\n]*\\\|[^`\n]*`")
LINK = re.compile(r"(?P<name>(?<=\[)[\w./-]+\.md)?\]\((?!\w+:|#)(?P<path>[^)#\s]+)")
#: How much a hit counts in what is not a description of the product: decisions, benchmarks, sources.
BESIDE = 0.1
#: The files outside of docs/ that the site has, by where it has them.
SOURCES: dict[str, str] = {}
LANGUAGES = {".py": "python", ".sql": "sql", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ to which pages link, and those to which these link in turn."""
    waiting = [DOCS + file.src_uri for file in files.documentation_pages()]
    known = set(waiting)
    for path in waiting:
        for target in _targets(path):
            if target not in known and not target.startswith(DOCS):
                known.add(target)
                waiting.append(target)
                SOURCES[_uri(target)] = target
                files.append(_generated(target, config))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links to files of the repository into links to pages of the site, and their texts into titles.

    A Git host's Markdown differs from Python's: a table needs no empty line after a comment, and a bar in code in a
    table is escaped.
    """
    path = SOURCES.get(page.file.src_uri, DOCS + page.file.src_uri)
    if path.startswith(f"{DOCS}adr/") or not path.startswith(DOCS):
        page.meta["search"] = {"boost": BESIDE}

    def rewrite(link: re.Match[str]) -> str:
        target = _resolve(path, link["path"])
        if target is None:
            return link[0]
        title = _title(target) if link["name"] else ""
        return f"{title}]({posixpath.relpath(_uri(target), posixpath.dirname(page.file.src_uri) or '.')}"

    markdown = CODE_IN_TABLE.sub(lambda code: code[0].replace(r"\|", "|"), COMMENT.sub("", markdown))
    return LINK.sub(rewrite, markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Keep what llms.txt is made of."""
    config.extra["built"] = nav, [file.page for file in files.documentation_pages()]


def on_post_build(config: MkDocsConfig) -> None:
    """Write each page as Markdown, llms.txt, which lists those of the navigation, and llms-full.txt, all of these."""
    nav, pages = config.extra["built"]
    site = Path(config.site_dir)
    for page in pages:
        (site / page.file.src_uri).write_text(page.markdown)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for item in nav.items:
        listed = (f"- [{page.title}]({page.file.src_uri}): {_summary(page)}" for page in _pages(item))
        lines += [f"## {item.title}", "", *listed, ""]
    (site / "llms.txt").write_text("\n".join(lines))
    (site / "llms-full.txt").write_text("\n\n".join(page.markdown for page in nav.pages))


def _targets(path: str) -> Iterator[str]:
    if path.endswith(".md"):
        for link in LINK.finditer((ROOT / path).read_text()):
            target = _resolve(path, link["path"])
            if target is not None:
                yield target


def _resolve(path: str, link: str) -> str | None:
    """The file of the repository that a link of a page leads to, or None when it leads to none."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    if (ROOT / target).is_dir():
        target += "/README.md"
    return target if (ROOT / target).is_file() else None


def _title(path: str) -> str:
    return (ROOT / path).read_text().partition("\n")[0].removeprefix("# ")


def _uri(path: str) -> str:
    """Where the site has a file of the repository; a README from elsewhere is no first page of a section."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return path.replace("/README.md", ".md") if path.endswith(".md") else f"{path}.md"


def _generated(path: str, config: MkDocsConfig) -> File:
    text = (ROOT / path).read_text()
    if not path.endswith(".md"):
        language = LANGUAGES.get(Path(path).suffix, "text")
        text = f"# {path}\n\n````{language}\n{text}````\n"
    return File.generated(config, _uri(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def _pages(item: StructureItem) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    if isinstance(item, Section):
        for child in item.children:
            yield from _pages(child)


def _summary(page: Page) -> str:
    """The first sentence of a page."""
    paragraphs = re.split(r"\n\s*\n", page.markdown or "")
    first = next(paragraph for paragraph in paragraphs if re.match(r"(?!```)[\w*`]", paragraph))
    text = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", " ".join(first.split()))
    return re.split(r"(?<=[.!?]) ", text)[0]
