"""A finger on the page: it scrolls, and it taps."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from served import IN_CHROMIUM, SCREENS, part, wait_for_tree

pytestmark = IN_CHROMIUM
NARROW = SCREENS["narrow"]["viewport"]
A_NODE = """() => {
  // a drafted node of the tree that is on the screen, and where
  const plot = document.querySelector('[data-figure=tree]'), {xaxis, yaxis} = plot._fullLayout;
  const {left, top} = plot.getBoundingClientRect(), sight = plot.closest('.scroll').getBoundingClientRect();
  const nodes = plot.data.filter((one) => one.hovertemplate).flatMap((one) => one.customdata.map(({node}, at) => ({
    node, x: left + xaxis._offset + xaxis.l2p(one.x[at]), y: top + yaxis._offset + yaxis.l2p(one.y[at])})));
  return nodes.find(({node, x}) => node > 0 && x > sight.left && x < sight.right);
}"""


@pytest.fixture
def phone(show):
    """A tab on a phone, and its screen: `touch(kind, (x, y) ...)`."""
    tab = show("?race=question&method=jakiro&round=5&tab=tree", viewport=NARROW)
    screen = tab.context.new_cdp_session(tab)
    screen.send("Emulation.setDeviceMetricsOverride", NARROW | {"deviceScaleFactor": 1, "mobile": True})
    screen.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    screen.send("Emulation.setFocusEmulationEnabled", {"enabled": True})  # a tap moves the focus, too
    tab.reload()  # figures are drawn for a mouse or for a finger
    wait_for_tree(tab)

    def touch(kind, *points):
        fingers = [{"x": x, "y": y} for x, y in points]
        screen.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": fingers})

    return tab, touch


@pytest.mark.parametrize("figure", ["[data-figure=tree]", "[data-part=bars]"])
def test_a_finger_that_starts_on_a_figure_scrolls_the_page(phone, figure):
    tab, touch = phone
    plot = tab.locator(figure)
    plot.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    before, box = tab.evaluate("scrollY"), plot.bounding_box()
    x, y = 200, box["y"] + box["height"] / 2
    touch("Start", (x, y))
    for step in range(1, 9):
        touch("Move", (x, y - 20 * step))
    touch("End")
    tab.wait_for_function("(before) => scrollY > before + 80", arg=before, timeout=20_000)


@pytest.mark.parametrize("figure", ["[data-figure=tree]", "[data-part=bars]"])
def test_two_fingers_on_a_figure_make_the_page_larger(phone, figure):
    tab, touch = phone
    plot = tab.locator(figure)
    plot.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    box = plot.bounding_box()
    y = box["y"] + box["height"] / 2
    touch("Start", (185, y), (205, y))
    for step in range(1, 9):
        touch("Move", (185 - 10 * step, y), (205 + 10 * step, y))
    touch("End")
    tab.wait_for_function("visualViewport.scale > 1.2")


def test_a_finger_that_taps_a_node_opens_it_and_keeps_the_zoom(phone):
    tab, touch = phone
    tree = tab.locator("[data-figure=tree]")
    tree.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    shown = "(plot) => plot._fullLayout.xaxis.range"
    whole = tree.evaluate(shown)
    tree.locator("[data-title='Zoom in']").dispatch_event("click")
    zoomed = tree.evaluate(shown)
    assert zoomed != whole
    node = tab.evaluate(A_NODE)
    tap(tab, touch, node["x"], node["y"])
    expect(part(tab, "node")).to_have_attribute("data-node", str(node["node"]))
    assert tree.evaluate(shown) == zoomed  # a double click would end it


def test_a_finger_on_a_bar_is_told_what_a_mouse_is(phone):
    tab, touch = phone
    tab.locator("[data-tab=run]").click()
    label, bars = tab.locator("#viewer .hovertext"), tab.locator("[data-figure=acceptance] .points path")
    bars.first.evaluate("(element) => element.scrollIntoView({block: 'center'})")
    for at, said in enumerate(("0 accepted", "1 accepted")):
        box = bars.nth(at).bounding_box()
        tap(tab, touch, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(label).to_contain_text(said)  # and one label only
    tap(tab, touch, 200, 10)
    expect(label).to_have_count(0)


def test_a_definition_stays_when_the_finger_is_lifted(phone):
    tab, touch = phone
    tab.evaluate("scrollTo(0, 0)")
    tip = part(tab, "tip")
    for name in ("settings", "source"):
        one = part(tab, name)
        box = one.bounding_box()
        tap(tab, touch, box["x"] + 10, box["y"] + box["height"] / 2)
        expect(tip).to_have_text(one.get_attribute("data-help"))
        expect(tip).to_be_visible()
    box = tab.locator("#prompt textarea").bounding_box()
    tap(tab, touch, box["x"] + 10, box["y"] + 10)
    expect(tip).to_be_hidden()


def test_what_a_finger_has_to_meet_is_24_px_high(phone):
    """WCAG 2.2, 2.5.8; the outline is what a phone shows."""
    tab, _ = phone
    tab.locator("[data-tab=outline]").click()
    expect(tab.locator(".outline button").first).to_be_visible()
    low = tab.evaluate("""() => [...document.querySelectorAll('#viewer :is(button, select, input)')]
        .filter((one) => one.checkVisibility() && one.type !== 'checkbox' && one.getBoundingClientRect().height < 24)
        .map((one) => one.outerHTML)""")
    assert low == []


def tap(tab, touch, x, y):
    """Touch a place, and wait for what a browser has its mouse do there afterwards."""
    touch("Start", (x, y))
    touch("End")
    tab.evaluate("new Promise((done) => setTimeout(done, 300))")
