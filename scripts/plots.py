"""Pictures of every figure of the page's benchmark view: `python scripts/plots.py [--out benchmarks/plots]`.

One SVG a figure, on white, named after its report and its title. With those in benchmarks/plots a page about an
experiment is written anew, too, if it is one of docs/ that the report's own command wrote (docs/decoupling.md by
decoupling-cpu.json's). Needs Chromium.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from served import browser, open_page, served  # noqa: E402

from jakiro.assets import BENCHMARKS, TRACES  # noqa: E402
from jakiro.commands.checks import check_folder  # noqa: E402
from jakiro.files import write_text  # noqa: E402
from jakiro.measuring.findings import as_page  # noqa: E402

DOCS = ROOT / "docs"
PLOTS = BENCHMARKS / "plots"
WIDTH = 900  # px
PICTURES = """
async (width) => {
  const found = [], chance = Math.random;
  for (const box of document.querySelectorAll('[data-part=report-figures] .plot')) {
    let drawn = 1; // plotly draws its ids by lot: a figure that is the same gives the same file so
    Math.random = () => (drawn = (drawn * 16807) % 2147483647) / 2147483647;
    const title = box.closest('.scroll').previousElementSibling.textContent;
    const figure = {data: box.data, layout: {...box.layout, paper_bgcolor: '#FFFFFF'}};
    found.push([title, await Plotly.toImage(figure, {format: 'svg', width, height: box.layout.height})]);
  }
  Math.random = chance;
  return found;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLOTS)
    options = parser.parse_args()
    try:
        check_folder(options.out)
    except OSError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, str]] = {}
    with served(TRACES) as address, browser() as chromium:
        tab, trouble = open_page(chromium, address, "?bench=first", color_scheme="light")
        tab.wait_for_selector("[data-part=benchmarks][data-drawn]")
        for report in tab.locator("[data-part=report] option").evaluate_all("(all) => all.map((one) => one.value)"):
            tab.select_option("[data-part=report]", report)
            tab.wait_for_selector(f"[data-part=benchmarks][data-drawn='{report}']")
            for title, picture in tab.evaluate(PICTURES, WIDTH):
                name = re.sub(r"[^a-z0-9]+", "-", f"{report} {title}".lower()).strip("-")
                (options.out / f"{name}.svg").write_bytes(_decoded(picture))
                found.setdefault(report, {})[title] = f"{name}.svg"
                print(name, *trouble)
    for report, pictures in found.items():
        data = json.loads((BENCHMARKS / f"{report}.json").read_text(encoding="utf-8"))
        if "experiment" in data and (page := page_of(data["command"], options.out)):
            beside = {title: os.path.relpath(options.out / name, DOCS) for title, name in pictures.items()}
            write_text(page, as_page(data, beside))


def page_of(command: str, out: Path) -> Path | None:
    """The page that a command writes, if it is one of docs/, whose pictures are those of PLOTS."""
    if out.resolve() != PLOTS.resolve():
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--page", type=Path)
    page = parser.parse_known_args(shlex.split(command))[0].page
    return ROOT / page if page and (ROOT / page).parent == DOCS else None


def _decoded(address: str) -> bytes:
    """The bytes of a data: address."""
    head, _, body = address.partition(",")
    if head.endswith(";base64"):
        return base64.b64decode(body)
    return unquote(body).encode()


if __name__ == "__main__":
    main()
