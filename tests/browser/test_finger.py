"""A finger on the page: it scrolls, and it taps."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from served import IN_CHROMIUM, SCREENS, wait_for_tree

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


def test_a_finger_that_taps_a_node_opens_it(phone):
    tab, touch = phone
    tab.locator("[data-figure=tree]").evaluate("(element) => element.scrollIntoView({block: 'center'})")
    node = tab.evaluate(A_NODE)
    touch("Start", (node["x"], node["y"]))
    touch("End")
    expect(tab.locator("[data-part=node]")).to_have_attribute("data-node", str(node["node"]))
