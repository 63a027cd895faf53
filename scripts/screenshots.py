"""Pictures of the page on its recorded races: `python scripts/screenshots.py [--query "race=maths&round=3"]`.

Light and dark at 1440 x 900, one tab after the other in light, and the whole page at 390 px. Needs Chromium.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from served import browser, open_page, served  # noqa: E402

from jakiro.assets import ASSETS, TARGET, TRACES  # noqa: E402
from jakiro.target import Target  # noqa: E402

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# file name -> (state of the page, how the browser is set up, the whole page or the first screen)
PICTURES = {
    "desktop-light": ("", {"viewport": DESKTOP, "color_scheme": "light"}, False),
    "desktop-dark": ("", {"viewport": DESKTOP, "color_scheme": "dark"}, False),
    "page-light": ("", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "routing-light": ("tab=routing", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "diversity-light": ("tab=diversity", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "run-light": ("tab=run", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "table-light": ("tab=table", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "whatif-light": ("tab=whatif", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "compare-light": ("tab=compare&against=eagle2", {"viewport": DESKTOP, "color_scheme": "light"}, True),
    "compare-mobile": (
        "tab=compare&against=eagle2",
        {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2},
        True,
    ),
    "present-dark": ("present=1", {"viewport": DESKTOP, "color_scheme": "dark"}, False),
    "mobile": ("tab=outline", {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2}, True),
}
READY = {  # state -> what is there when its views are drawn
    "": "[data-figure=tree][data-drawn=yes]",
    "tab=routing": "[data-figure=run_routing][data-drawn=yes]",
    "tab=diversity": "[data-figure=run_diversity][data-drawn=yes]",
    "tab=run": "[data-figure=classes][data-drawn=yes]",
    "tab=table": "[data-view=table] tr",
    "tab=whatif": "[data-view=whatif] form",
    "tab=compare&against=eagle2": "[data-view=compare] .primary:enabled",
    "present=1": "[data-figure=tree][data-drawn=yes]",
    "tab=outline": "[data-view=outline] [aria-current=true]",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--target", type=Path, default=TARGET, help="so that the pictures show a page that can run")
    parser.add_argument("--query", default="", help="race, method, round, node as in the page's address")
    parser.add_argument("--out", type=Path, default=ASSETS / "screenshots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with served(options.traces, Target.load(options.target)) as address, browser() as chromium:
        for name, (state, context, whole) in PICTURES.items():
            query = "&".join(filter(None, (options.query, state, "motion=0")))
            tab, trouble = open_page(chromium, address, f"?{query}", **context)
            tab.wait_for_selector("[data-models=ready]")
            tab.wait_for_selector(READY[state])
            if "compare" in state:
                tab.locator("[data-view=compare] .primary").click()
                tab.wait_for_selector("[data-figure=reach][data-drawn=yes]")
            tab.wait_for_selector("[data-drawn=no]", state="detached")
            tab.screenshot(path=options.out / f"{name}.png", full_page=whole)
            tab.context.close()
            print(name, *trouble)


if __name__ == "__main__":
    main()
