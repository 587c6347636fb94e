"""``python -m tests.browser.pictures STORE FOLDER``: pictures of docs/studio.md, of the runs of make demo."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.browser.site import NARROW, Site, serve
from tools.browser import FLAGS, find_chromium
from valor_gpu.store import Store

MOST_BYTES = 150_000


def take(page: Page, path: Path, height: int) -> None:
    """Writes a picture of a page in at most 256 colours: letters stay sharp, and the file small."""
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height})  # type: ignore[index]
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}")


def main(store: Path, folder: Path) -> None:
    """Takes all pictures."""
    with Store(store) as opened:
        large, small = [head.id for head in opened.heads()[:2]]
    shots = {
        "studio_run": (f"/runs/{large}", 900, {}),
        "studio_rows": (f"/runs/{large}?sort=gpt_similarity&q=hours&open=9#rows", 900, {"color_scheme": "dark"}),
        "studio_compare": (f"/compare?runs={small}&runs={large}", 700, {}),
        "studio_narrow": (f"/runs/{large}", 844, {"viewport": NARROW}),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        with serve(store, browser) as site:
            for name, (path, height, settings) in shots.items():
                shoot(site, path, folder / f"{name}.png", height, **settings)
        browser.close()


def shoot(site: Site, path: str, file: Path, height: int, **settings: object) -> None:
    """Takes the picture of one page."""
    with site.tab(**settings) as tab:  # type: ignore[arg-type]
        take(tab.open(path), file, height)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
