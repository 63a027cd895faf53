"""Pictures of the page on its recorded races: `python scripts/screenshots.py [--query "race=maths&round=3"]`.

Light and dark at 1440 x 900, one view after the other in light, and the whole page at 390 px. Needs Chromium.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from playwright.sync_api import Page  # noqa: E402
from served import browser, open_page, served  # noqa: E402

from jakiro.assets import ASSETS, TARGET, TRACES  # noqa: E402
from jakiro.machine import use_threads  # noqa: E402
from jakiro.target import Target  # noqa: E402

LIGHT = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"}
DARK = LIGHT | {"color_scheme": "dark"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2}


def compare(tab: Page) -> None:
    """Both lanes draft along the text."""
    tab.locator("[data-view=compare] .primary").click()
    tab.wait_for_selector("[data-figure=reach][data-drawn=yes]")


def half_the_nodes(tab: Page) -> None:
    """The whole run again, with half the node budget."""
    form = tab.locator("form.whatif")
    form.get_by_label("total_tokens").fill("5")
    form.get_by_label("rounds").fill("64")
    form.locator("[type=submit]").click()
    tab.wait_for_selector("[data-part=back]:visible")
    tab.wait_for_selector(TREE)


def examine(tab: Page) -> None:
    """The doctor looks at the head."""
    tab.locator("[data-view=run] .doctor button").click()
    tab.wait_for_selector(".findings tr")


class Picture(NamedTuple):
    """A state of the page, what is there when it is drawn, and how it is taken."""

    state: str = ""
    ready: str = "[data-figure=tree][data-drawn=yes]"
    context: dict[str, Any] = LIGHT
    whole: bool = True  # the whole page, or only one screen of it
    top: str = ""  # what of the viewer is brought to that screen's top
    act: Callable[[Page], None] = lambda tab: None  # what is done there first


TREE = Picture().ready
COMPARE = "tab=compare&against=eagle2&place=57"
ASKED = "[data-view=compare] .primary:enabled"
PICTURES = {
    "desktop-light": Picture(whole=False),
    "desktop-dark": Picture(context=DARK, whole=False),
    "page-light": Picture(),
    "routing-light": Picture("tab=routing", "[data-figure=run_routing][data-drawn=yes]"),
    "diversity-light": Picture("tab=diversity", "[data-figure=run_diversity][data-drawn=yes]"),
    "run-light": Picture("tab=run", "[data-figure=classes][data-drawn=yes]", whole=False, top=".round"),
    "doctor-light": Picture("tab=run", "[data-view=run] .doctor button:enabled", act=examine),
    "table-light": Picture("tab=table", "[data-view=table] tr"),
    "compare-light": Picture(COMPARE, ASKED, whole=False, top=".round", act=compare),
    "compare-whole": Picture(COMPARE, ASKED, act=compare),
    "compare-dark": Picture(COMPARE, ASKED, DARK, act=compare),
    "compare-mobile": Picture(COMPARE, ASKED, PHONE, act=compare),
    "whatif-light": Picture("tab=whatif", "[data-view=whatif] form"),
    "branch-light": Picture(
        "round=0&tab=whatif", "[data-view=whatif] [type=submit]:enabled", LIGHT, False, act=half_the_nodes
    ),
    "present-dark": Picture("present=1", context=DARK, whole=False),
    "mobile": Picture("tab=outline", "[data-view=outline] [aria-current=true]", PHONE),
}
SHIPPED = ["desktop-light", "desktop-dark", "mobile", "run-light", "compare-light", "branch-light"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--target", type=Path, default=TARGET, help="so that the pictures show a page that can run")
    parser.add_argument("--query", default="", help="race, method, round, node as in the page's address")
    parser.add_argument(
        "--only", nargs="+", choices=PICTURES, default=SHIPPED, help="which pictures (default: those in the docs)"
    )
    parser.add_argument("--out", type=Path, default=ASSETS / "screenshots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    use_threads(spare=1)  # as app.py does, since the browser needs a core
    with served(options.traces, Target.load(options.target)) as address, browser() as chromium:
        for name in options.only:
            picture = PICTURES[name]
            query = "&".join(filter(None, (options.query, picture.state, "motion=0")))
            tab, trouble = open_page(chromium, address, f"?{query}", **picture.context)
            tab.wait_for_selector("[data-models=ready]")
            tab.wait_for_selector(picture.ready)
            picture.act(tab)
            if picture.top:
                tab.locator(f"#viewer {picture.top}").first.evaluate("(element) => element.scrollIntoView()")
            tab.mouse.move(0, 0)
            tab.wait_for_selector("[data-drawn=no]", state="detached")
            tab.screenshot(path=options.out / f"{name}.png", full_page=picture.whole, animations="disabled")
            tab.context.close()
            print(name, *trouble)


if __name__ == "__main__":
    main()
