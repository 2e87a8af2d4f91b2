"""The site of the documentation: it builds in strict mode, every page is found, and it needs nothing from elsewhere."""

from __future__ import annotations

import tomllib
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tools import site

if TYPE_CHECKING:
    from pathlib import Path


class Page(HTMLParser):
    """What a page of the site links to, loads, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if "href" in given:
            (self.links if tag == "a" else self.loaded).append(given["href"])
        if "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    assert site.build(folder) == 0
    return folder


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in built.rglob("*.html") if path.name != "404.html"}


def listed(entries: list[object]) -> list[str]:
    """Return the pages of a navigation, in order."""
    found = []
    for entry in entries:
        assert isinstance(entry, dict)
        for target in entry.values():
            found += [target] if isinstance(target, str) else listed(target)
    return found


def test_every_page_is_in_the_navigation_once(tmp_path: Path) -> None:
    site.stage(tmp_path / "pages")
    staged = sorted(path.relative_to(tmp_path / "pages").as_posix() for path in tmp_path.rglob("*.md"))
    assert sorted(listed(tomllib.loads(site.CONFIG.read_text())["project"]["nav"])) == staged


def test_every_link_and_anchor_of_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = [
        f"{path.name}: {link}"
        for path, page in pages.items()
        for link in (*page.links, *page.loaded)
        if not urlsplit(link).scheme and not leads(path, link, pages)
    ]
    assert broken == []


def leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Whether a link of a page leads to a file, and to an anchor if it names one."""
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    return target.exists() and (parts.fragment in ("", "__top") or parts.fragment in pages[target].anchors)


def test_a_link_that_leads_nowhere_is_noticed(pages: dict[Path, Page]) -> None:
    index = next(path for path in pages if path.name == "index.html")
    assert leads(index, "docs/reasons.html#nameconflict", pages)
    assert not leads(index, "docs/reasons.html#no-such-reason", pages)
    assert not leads(index, "docs/no-such-page.html", pages)


def test_a_browser_fetches_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert pages
    assert {link for page in pages.values() for link in page.loaded if urlsplit(link).netloc} == set()


def test_numbered_steps_stay_one_list(built: Path) -> None:
    text = (built / "docs" / "guides" / "coming-from.html").read_text()
    assert text.count("<ol>") == 1
    assert "<p>Pause all objects, and stop the operator.</p>\n<div class=" in text
