"""Every view in light, in dark and on a narrow screen: nothing that axe (WCAG 2 A and AA) finds, no sideways scroll.

And what a short window begins with.
"""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from served import IN_CHROMIUM, SCREENS, part, wait_for_tree

pytestmark = IN_CHROMIUM

VIEWS = ["tree", "outline", "routing", "diversity", "run", "table", "compare", "whatif"]
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
COLOURS = RULES | {"runOnly": ["color-contrast"]}  # half of the work: where nothing but colours differs, and not again
SHAPES = RULES | {"rules": {"color-contrast": {"enabled": False}}}


@pytest.mark.parametrize(
    ("show", "rules"), [("light", RULES), ("dark", COLOURS), ("narrow", SHAPES)], indirect=["show"], ids=SCREENS
)
def test_every_view_can_be_read_by_everyone(show, rules):
    tab = show("?race=question&method=jakiro&round=3&motion=0&tab=tree")
    wait_for_tree(tab)
    tab.wait_for_selector("#viewer [data-models=ready]")
    found = []
    for view in VIEWS:
        tab.locator(f"[data-tab={view}]").click()
        tab.wait_for_selector(f"[data-view={view}]:visible")
        tab.wait_for_selector("[data-drawn=no]", state="detached")
        found += [f"{view}: {one}" for one in troubles(tab, rules, f"[data-view={view}]")]
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
    found += [f"around them: {one}" for one in troubles(tab, rules)]
    part(tab, "benchmarks").locator("summary").first.click()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn]")
    found += [f"benchmarks: {one}" for one in troubles(tab, rules, "[data-part=benchmarks]")]
    tab.locator("#viewer [data-do=help]").click()
    tab.wait_for_selector("dialog[open]")
    found += [f"help: {one}" for one in troubles(tab, rules, "dialog")]
    assert found == []


def test_in_the_colours_of_the_system_one_sees_what_is_chosen(show):
    """There backgrounds are all alike, unless they are asked for by name."""
    tab = show("?race=question&method=jakiro&round=3&motion=0&tab=outline", forced_colors="active")
    expect(tab.locator(".outline [aria-current=true]")).to_be_visible()
    background = "(one) => getComputedStyle(one).backgroundColor"
    for chosen, other in (
        (".lane .text .now", ".lane .text .t0"),
        ("[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"),
        (".outline [aria-current=true]", ".outline [aria-current=false]"),
        (".bar i", ".bar"),
    ):
        found = [tab.locator(f"#viewer {name}").first.evaluate(background) for name in (chosen, other)]
        assert found[0] != found[1], chosen
    selected = tab.locator(".outline [aria-current=true]").evaluate(background)
    tab.locator("[data-tab=table]").click()
    expect(tab.locator("[data-tab=table]")).to_have_attribute("aria-selected", "true")
    expect(tab.locator("tr.now")).to_have_css("background-color", selected)


def test_a_short_window_has_the_tree_on_its_first_screen(show):
    tab = show("?race=question&method=jakiro", viewport={"width": 1366, "height": 660})
    wait_for_tree(tab)
    tree = tab.locator("[data-figure=tree]")
    tops = [one.bounding_box()["y"] for one in (part(tab, "play"), tree, part(tab, "bars"), part(tab, "benchmarks"))]
    assert tops == sorted(tops) and tops[1] < 500 and tops[2] > 660
    tab.locator(".stage").evaluate("(stage) => stage.classList.add('running')")
    expect(part(tab, "play")).to_be_hidden()  # there are no rounds to choose from yet


def troubles(tab, rules: dict, within: str = "") -> list[str]:
    """What axe finds in the viewer, without the view of a round that is open, or in a part of it, when no colour is
    changing: the rule, what is wrong, and where."""
    tab.wait_for_function("document.getAnimations().every((one) => !(one instanceof CSSTransition))")
    looked_at = f"#viewer {within}" if within else {"include": "#viewer", "exclude": "[data-view]"}
    violations = Axe().run(tab, context=looked_at, options=rules).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {node['target']} {node['failureSummary']}"
        for one in violations
        for node in one["nodes"]
    ]
