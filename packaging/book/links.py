#!/usr/bin/env python3
"""Follows every link and picture of a site on disk, with its heading."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if key in ("href", "src") and value:
                self.links.append(value)
            elif key in ("id", "name") and value:
                self.names.add(value)


site = Path(sys.argv[1]).resolve()
# The printable page has the anchors of all others, and a missing page has links from the root.
pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name not in ("print.html", "404.html")}
broken, followed = [], 0
for path, page in pages.items():
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        to = to / "index.html" if to.is_dir() else to
        followed += 1
        if not to.exists():
            broken.append(f"{path.relative_to(site)}: {link}")
        elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].names:
            broken.append(f"{path.relative_to(site)}: {link}")
print(f"{len(pages)} pages, {followed} links")
if broken or not followed:
    sys.exit("Broken links:\n" + "\n".join(sorted(set(broken))))
