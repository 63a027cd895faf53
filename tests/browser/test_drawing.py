"""What the browser draws of a round: by plotly at rest, as a sketch while rounds follow fast or plotly is not there."""

from __future__ import annotations

import html
import json
import re

import pytest
import synthetic
from playwright.sync_api import expect
from served import HOSTILE, IN_CHROMIUM, SCREENS, WIDE, part, visit, wait_for_timeline, wait_for_tree

from jakiro.ui.figures.theme import THEMES

pytestmark = IN_CHROMIUM
RUN = synthetic.tree_trace(12, nodes=24)  # as the page has it
A_DRAFTED_NODE = """() => {
  const plot = document.querySelector('[data-figure=tree]');
  const trace = plot.data.find((one) => one.hovertemplate && one.customdata?.[0]?.node > 0);
  const {left, top} = plot.getBoundingClientRect();
  const {xaxis, yaxis} = plot._fullLayout;
  const [x, y] = [xaxis._offset + xaxis.l2p(trace.x[0]), yaxis._offset + yaxis.l2p(trace.y[0])];
  return {node: trace.customdata[0].node, x: left + x, y: top + y};
}"""
WRITTEN = """() => {
  // what is on the canvas of labels, each with the place of its point as plotly has it
  const {ctx, full, _fullLayout: {xaxis, yaxis}} = Object.assign(document.querySelector('[data-figure=tree]'),
    {ctx: document.querySelector('[data-view=tree] canvas.labels').getContext('2d')});
  const written = [];
  ctx.fillText = (text, x, y) => written.push([text, x, y]);
  document.querySelector('[data-figure=tree]').emit('plotly_afterplot');
  delete ctx.fillText;
  const points = full.data.filter((one) => one.mode === 'markers+text').flatMap((one) => one.text.map((text, at) =>
    [text, xaxis._offset + xaxis.d2p(one.x[at]), yaxis._offset + yaxis.d2p(one.y[at])]));
  const seen = points.filter(([text, x, y]) => text && x >= xaxis._offset && x <= xaxis._offset + xaxis._length
    && y >= yaxis._offset && y <= yaxis._offset + yaxis._length);
  return {written, seen};
}"""
KEEP_SKETCH = """() => {
  const canvas = document.querySelector('[data-view=tree] canvas.sketch');
  window.sketch = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
}"""
MARKS = """() => {
  // for every point that plotly draws, and for a corner: is the sketch painted there?
  const {data, _fullLayout: {xaxis, yaxis}} = document.querySelector('[data-figure=tree]');
  const painted = (x, y) => window.sketch.data[4 * (Math.round(y) * window.sketch.width + Math.round(x)) + 3] > 0;
  const points = data.filter((one) => one.mode === 'markers' && one.hovertemplate).flatMap((one) =>
    one.x.map((x, at) => [xaxis.d2p(x), yaxis.d2p(one.y[at])]));
  const within = ([x, y]) => x >= 0 && x <= xaxis._length && y >= 0 && y <= yaxis._length;
  const marked = (some) => some.map(([x, y]) => painted(xaxis._offset + x, yaxis._offset + y));
  const [seen, unseen] = [points.filter(within), points.filter((one) => !within(one))];
  return {seen: marked(seen), unseen: marked(unseen), corner: painted(1, 1)};
}"""
CROWDED = """() => [...document.querySelectorAll('#viewer [role=tabpanel] .js-plotly-plot')].flatMap((plot) => {
  // captions and legends of figures that are cut off or lie on one another
  const box = plot.getBoundingClientRect(), texts = [...plot.querySelectorAll('.annotation-text, .legendtext')];
  const all = texts.map((one) => ({text: one.textContent, at: one.getBoundingClientRect()}));
  const said = all.filter(({at}) => at.width);
  const cut = said.filter(({at}) => at.left < box.left || at.right > box.right || at.top < box.top);
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const twice = said.filter(({at}, index) => said.slice(index + 1).some((other) => over(at, other.at)));
  return [...cut, ...twice].map(({text}) => text);
})"""
CAPTIONS_BREAK = """(wanted) => [...document.querySelectorAll('[data-figure=run_routing] .annotation-text')]
  .some((one) => one.dataset.unformatted.includes('<br>')) === wanted"""
SHOWN = """() => {
  // what of the tree can be seen
  const of = (query) => getComputedStyle(document.querySelector(`#viewer [data-view=tree] ${query}`)).visibility;
  return {drawn: document.querySelector('[data-figure=tree]').dataset.drawn, plot: of('.plot .scatterlayer'),
    labels: of('.labels:not(.sketch)'), sketch: of('.sketch')};
}"""
LEGEND = """() => {
  // of the tree: where its legend is in the figure, and where the tree begins
  const plot = document.querySelector('[data-figure=tree]'), {top, left} = plot.getBoundingClientRect();
  const at = document.querySelector('[data-view=tree] .key .legend').getBoundingClientRect();
  const [x, y, bottom] = [at.left - left, at.top - top, at.bottom - top].map(Math.round);
  return {x, y, bottom, height: Math.round(at.height), begin: Math.round(plot._fullLayout._size.t)};
}"""
HURRY = """async () => {
  // the playhead moves every frame
  const slider = document.querySelector('[data-part=scrub]');
  for (let round = 1; round <= 8; round += 1) {
    slider.value = round;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise(requestAnimationFrame);
  }
}"""
HURRIED = f"""async () => {{
  // the tree in the frame of the playhead's last move
  await ({HURRY})();
  ({KEEP_SKETCH})();
  return ({SHOWN})();
}}"""
FITTING = """() => {
  // whether every plot that can be seen, and what is painted over it, is as wide as its box, and nothing moves
  const seen = (query) => [...document.querySelectorAll(`#viewer ${query}`)].filter((one) => one.clientWidth);
  const near = (one, other) => Math.abs(one - other) <= 1;
  const wide = (box, query) => box.querySelector(query).clientWidth;
  return document.getAnimations().every((one) => !(one instanceof CSSTransition))
    && seen('.js-plotly-plot').every((plot) => near(plot._fullLayout.width, plot.clientWidth))
    && seen('.layers:has(canvas)').every((box) => near(wide(box, '.labels:not(.sketch)'), wide(box, '.plot')))
    && seen('.scroll:has(.plot)').every((box) => box.scrollWidth === Math.max(box.clientWidth, wide(box, '.plot')));
}"""
STAR_IN_SIGHT = """() => {
  // the bonus and the node that is chosen, and 40 px of the bonus's label
  const plot = document.querySelector('[data-figure=tree]'), scroll = plot.closest('.scroll').getBoundingClientRect();
  const place = (symbol) => plot.data.find(({marker}) => marker?.symbol === symbol).x[0];
  const {xaxis} = plot._fullLayout, at = (x) => plot.getBoundingClientRect().left + xaxis._offset + xaxis.l2p(x);
  return [at(place('circle-open')), at(place('star')) + 40].every((x) => x >= scroll.left && x <= scroll.right);
}"""
ROOT_IN_SIGHT = """() => {
  const plot = document.querySelector('[data-figure=tree]'), scroll = plot.closest('.scroll').getBoundingClientRect();
  const {xaxis} = plot._fullLayout;
  return plot.getBoundingClientRect().left + xaxis._offset + xaxis.l2p(0) >= scroll.left;
}"""
CELL = """([x, y]) => {
  // where the map of the router has a round and a depth
  const plot = document.querySelector('[data-figure=run_routing]'), {xaxis, yaxis} = plot._fullLayout;
  plot.scrollIntoView({block: 'center'});
  const box = plot.getBoundingClientRect();
  return {x: box.left + xaxis._offset + xaxis.l2p(x), y: box.top + yaxis._offset + yaxis.l2p(y)};
}"""
BAR = """(round) => {
  // the middle of a round's bar, as it is drawn
  const plot = document.querySelector('[data-part=bars]'), bars = plot.data.findIndex((one) => one.type === 'bar');
  const bar = plot.querySelectorAll('.barlayer .trace')[bars].querySelectorAll('.point')[round].getBoundingClientRect();
  return {x: (bar.left + bar.right) / 2, y: (bar.top + bar.bottom) / 2};
}"""
ON_PAPER = """() => {
  // on a page of A4, for which nothing is drawn anew: does the timeline fit, is its playhead over the tenth bar?
  dispatchEvent(new Event('beforeprint'));
  document.querySelector('#viewer').style.width = '718px';
  const at = (query) => document.querySelector(`#viewer .timeline ${query}`).getBoundingClientRect();
  const [bar, head] = [at('.barlayer .trace:first-child .point:nth-child(10)'), at('.playhead')];
  return {fits: at('.main-svg').right <= at('.scroll').right, over: bar.left < head.left && head.right < bar.right};
}"""
LABELS_ON_PAPER = """() => {
  // the zoom that names of nodes are in, and whether they are as large as the tree and over it
  dispatchEvent(new Event('beforeprint'));
  const tree = document.querySelector('[data-figure=tree]'), names = tree.querySelector('canvas.labels');
  const [own, other] = [names, tree.querySelector('.main-svg')].map((one) => one.getBoundingClientRect());
  const over = ['left', 'top', 'right', 'bottom'].every((side) => Math.abs(own[side] - other[side]) < 1);
  return {zoom: Math.round(100 * names.currentCSSZoom) / 100, over, smaller: own.width < tree._fullLayout.width};
}"""
TABLE_ON_PAPER = """() => {
  // whether the table fits, and none of it is below the end of its box
  const box = document.querySelector('[data-view=table] .table'), own = box.getBoundingClientRect();
  const {right, bottom} = box.querySelector('table').getBoundingClientRect();
  return {wide: right <= own.right + 1, high: bottom <= own.bottom + 1};
}"""
PRINTED = """() => {
  // what is printed: the theme of the page and the colours of figures, when all are told of it
  window.printed = [];
  const color = (query) => document.querySelector(query).layout.font.color;
  addEventListener('beforeprint', () => Promise.resolve().then(() => Promise.resolve()).then(() => printed.push(
    [document.body.matches('.dark'), color('[data-figure=tree]'), color('[data-part=bars]')])));
}"""
PLOTTED = """(name) => {
  // what plotly shows, not what it was given
  const plot = document.querySelector(`[data-figure=${name}]`);
  const texts = [...plot.querySelectorAll('.xtick text, .x2tick text, .annotation-text')].map((one) => one.textContent);
  return {texts, data: plot._fullData.map(({x, y}) => [x, y])};
}"""


def test_a_view_is_opened_before_all_its_figures_are_drawn(show):
    """They take a second on a slow machine, and it looked as if the click had come to nothing."""
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_timeline(tab)
    count = "document.querySelectorAll('[data-view=run] .main-svg').length"
    click = f"document.querySelector('[data-tab=run]').click(); requestAnimationFrame(() => done({count}))"
    assert tab.evaluate(f"() => new Promise((done) => {{ {click}; }})") == 0
    expect(tab.locator("[data-tab=run]")).to_have_attribute("aria-selected", "true")
    for figure in ("acceptance", "classes"):
        tab.wait_for_selector(f"[data-figure={figure}][data-drawn=yes]")


def test_a_click_on_a_node_of_the_tree_opens_it(show):
    tab = show("?race=question&method=jakiro&round=4", viewport={"width": 1440, "height": 1800})
    wait_for_tree(tab)
    wanted = tab.evaluate(A_DRAFTED_NODE)
    tab.mouse.click(wanted["x"], wanted["y"])
    tab.wait_for_selector(f"[data-part=node][data-node='{wanted['node']}']")
    tab.locator("[data-view=tree]").focus()
    tab.keyboard.press("ArrowLeft")
    other = f"[data-part=node]:not([data-node='{wanted['node']}'])"
    tab.wait_for_selector(other)


def test_figures_are_printed_as_wide_as_the_paper(show):
    """Those of a wide window were cut off at the right."""
    tab = show("?race=question&method=jakiro&round=9&motion=0")
    wait_for_tree(tab)
    tab.wait_for_selector("[data-part=bars][data-drawn=yes]")
    tab.emulate_media(media="print")
    assert tab.evaluate(ON_PAPER) == {"fits": True, "over": True}
    assert (
        tab.locator("footer, #prompt, [data-do=share]").evaluate_all("(all) => all.filter((one) => one.clientWidth)")
        == []
    )


def test_names_of_nodes_stay_beside_them_on_paper(show):
    """A canvas that is painted for paper, as in the dark, Chromium prints too small where it is in a zoom: names lay
    over the marks of their nodes."""
    tab = show("?race=question&method=jakiro&round=9&motion=0")
    wait_for_tree(tab)
    tab.emulate_media(media="print")
    assert tab.evaluate(LABELS_ON_PAPER) == {"zoom": 1, "over": True, "smaller": True}


def test_a_table_is_printed_to_its_end(show):
    tab = show("?race=question&method=jakiro&round=9&motion=0&tab=table", viewport={"width": 1440, "height": 400})
    tab.wait_for_selector("[data-view=table] [data-drawn=yes]")
    tab.wait_for_selector("[data-part=bars][data-drawn=yes]")  # it is wider than paper, and made smaller if it is there
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": 718, "height": 400})  # A4
    assert tab.evaluate(TABLE_ON_PAPER) == {"wide": True, "high": True}


def test_paper_is_light(show):
    printed = []
    for theme in ("light", "dark"):
        tab = show("?race=question&method=jakiro&round=9&motion=0", color_scheme=theme)
        wait_for_tree(tab)
        tab.wait_for_selector("[data-part=bars][data-drawn=yes]")
        tab.evaluate(PRINTED)
        tab.pdf()
        printed += tab.evaluate("printed")
        expect(tab.locator("body.dark")).to_have_count(int(theme == "dark"))
    assert len(printed) == 2 and printed[0] == printed[1]


def test_figures_follow_their_boxes_where_the_window_stays(show):
    tab = show("?race=question&method=jakiro&round=3")
    tab.locator("[data-tab=routing]").click()
    tab.wait_for_selector("[data-figure=run_routing][data-drawn=yes]")
    wait_for_tree(tab)
    tab.evaluate(HURRY)  # now there is a sketch, too
    wait_for_tree(tab)
    wide = part(tab, "bars").evaluate("(bars) => bars.clientWidth")
    for moved in ("< wide - 100", "=== wide"):  # the settings push the page aside, and let it back
        tab.locator("[data-do=settings]").click()
        tab.wait_for_function(f"(wide) => document.querySelector('[data-part=bars]').clientWidth {moved}", arg=wide)
        tab.wait_for_function(FITTING)
        for round in (9, 2):
            place = tab.evaluate(BAR, round)
            tab.mouse.click(place["x"], place["y"])
            tab.wait_for_selector(f"[data-round='{round}'][data-method=jakiro]")
            head = part(tab, "playhead").bounding_box()
            assert abs(head["x"] + head["width"] / 2 - place["x"]) <= 2
        tab.locator("[data-tab=routing]").click()  # which was hidden meanwhile
        tab.wait_for_function(FITTING)
        wait_for_tree(tab)
    assert tab.locator("[clip-path*=http]").count() == 0


def test_labels_stand_at_their_points_through_rounds_and_zoom(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.wait_for_selector("[data-view=tree] canvas.labels + .main-svg")  # what is hovered lies above them
    counts = []
    for act in ("", "round", "zoom", "race"):
        if act == "round":
            tab.keyboard.press("ArrowRight")
            tab.wait_for_selector("[data-round='4'][data-method]")
            wait_for_tree(tab)
        if act == "zoom":
            tab.locator("[data-figure=tree]").hover()
            tab.locator("[data-figure=tree] [data-title='Zoom in']").click()
        if act == "race":
            part(tab, "races").select_option("hostile")
            expect(part(tab, "prompt")).to_have_text(HOSTILE)
            wait_for_tree(tab)
        labels = tab.evaluate(WRITTEN)
        counts.append(len(labels["written"]))
        assert len(labels["written"]) == len(labels["seen"]) > 0
        for text, x, y in labels["written"]:
            beside = [one for one, left, top in labels["seen"] if -0.1 < x - left < 25 and -0.1 < y - top < 25]
            assert any(text in html.unescape(source) for source in beside)
    assert counts[1] > counts[2]  # zoomed in, some points are out of sight


def test_the_label_of_the_chosen_node_stands_beside_its_ring(show):
    tab = show("?race=question&method=jakiro&round=3&node=23")  # which is smaller than the ring
    wait_for_tree(tab)
    ring = """() => {
      const {data, _fullLayout: {xaxis, yaxis}} = document.querySelector('[data-figure=tree]');
      const {x: [x], y: [y], marker} = data.find(({marker}) => marker?.symbol === 'circle-open');
      return [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y), marker.size / 2];
    }"""
    across, down, radius = tab.evaluate(ring)
    near = [x - across for _, x, y in tab.evaluate(WRITTEN)["written"] if abs(y - down) < 1 and -1 < x - across < 40]
    assert near and min(near) > radius


def test_a_zoom_is_that_of_one_lane(show):
    seen = "document.querySelector('[data-figure=tree]')._fullLayout.yaxis.range[0]"
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    whole = tab.evaluate(seen)
    tab.locator("[data-figure=tree]").hover()
    tab.locator("[data-figure=tree] [data-title='Zoom in']").click()
    tab.wait_for_function(f"{seen} !== {whole}")
    tab.keyboard.press("k")
    tab.wait_for_selector("[data-round='4'][data-method=jakiro]")
    wait_for_tree(tab)
    assert tab.evaluate(seen) != whole
    tab.keyboard.press("2")
    tab.wait_for_selector("[data-method=eagle2][data-round]")
    wait_for_tree(tab)
    assert tab.evaluate(seen) == whole


SEE_PICTURES = """() => {
  const own = Plotly.toImage;
  Plotly.toImage = (figure, look) => { window.asked = {figure, look}; return own(figure, look); };
}"""
IS_ON_TOP = """one => {
  const {left, top, width, height} = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}"""
WRITE_LABELS = """async () => {
  const address = document.querySelector('link[rel=modulepreload][href$="/labels.js"]').href;
  const {write} = await import(address);
  const seen = [], pen = document.createElement('canvas').getContext('2d');
  pen.fillText = (text) => seen.push(text);
  const axis = {range: [0, 100], _offset: 0, _length: 100};
  const look = {size: 10, family: 'monospace', color: 'black', below: false};
  const label = (text, y, radius, bold = false) => ({...look, x: 1, y, text, radius, bold});
  const labels = [label('unlikely', 46, 1), label('likely', 40, 4), label('path', 54, 2, true), label('apart', 90, 1)];
  write(pen, {xaxis: axis, yaxis: axis}, labels, 'white');
  return seen;
}"""


def test_a_download_is_the_whole_figure(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.evaluate(SEE_PICTURES)
    tab.locator("[data-figure=tree]").hover()
    with tab.expect_download() as download:
        tab.locator("[data-figure=tree] [data-title='Download as a picture']").click()
    asked = tab.evaluate("window.asked")
    texts = [text for trace in asked["figure"]["data"] for text in trace.get("text", []) if text]
    assert len(texts) > 10
    assert any(trace.get("showlegend") is not False for trace in asked["figure"]["data"])
    shown = tab.evaluate("document.querySelector('[data-figure=tree]')._fullLayout.xaxis.range")
    assert asked["figure"]["layout"]["xaxis"]["range"] == shown
    assert download.value.suggested_filename == "question-jakiro-round4-tree.png"
    assert asked["figure"]["layout"]["paper_bgcolor"].upper() == THEMES["light"]["surface"]
    part(tab, "timeline").hover()
    with tab.expect_download() as download:
        part(tab, "timeline").locator("[data-title='Download as a picture']").click()
    assert download.value.suggested_filename == "question-jakiro-round4-timeline.png"


def test_buttons_of_a_figure_are_where_they_can_be_clicked(show):
    """Not below what is seen of its box: Playwright would scroll them into view, a mouse does not."""
    tab = show("?race=question&method=jakiro&round=3", viewport={"width": 1440, "height": 1300})
    wait_for_tree(tab)
    tab.locator("[data-figure=tree]").hover()
    button = tab.locator("[data-figure=tree] [data-title='Zoom in']")
    assert button.evaluate(IS_ON_TOP)
    box = tab.locator("[data-figure=tree]").locator("xpath=ancestor::*[contains(@class, 'scroll')]")
    assert box.evaluate("one => one.scrollHeight === one.clientHeight")


def test_labels_that_would_lie_over_one_another_are_left_out(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    written = tab.evaluate(WRITE_LABELS)
    assert written == ["path", "likely", "apart"]


def test_labels_are_as_sharp_as_the_screen_that_the_window_comes_to(show):
    script = """const own = window.matchMedia;
      window.asked = [];
      window.matchMedia = (query) => {
        const list = own.call(window, query);
        if (query.includes('resolution')) asked.push(list);
        return list;
      };"""
    tab = show("?race=question&method=jakiro&round=3", script=script)
    wait_for_tree(tab)
    canvas = "document.querySelector('[data-view=tree] canvas.labels:not(.sketch)')"
    session = tab.context.new_cdp_session(tab)
    for scale in (2, 1, 1.5):
        given = {"width": 1440, "height": 900, "deviceScaleFactor": scale, "mobile": False}
        session.send("Emulation.setDeviceMetricsOverride", given)  # which tells no list: a screen does
        tab.evaluate("asked.forEach((one) => one.dispatchEvent(new Event('change')))")
        tab.wait_for_function(f"Math.abs({canvas}.width / {canvas}.clientWidth - {scale}) < 0.01")


@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_the_legend_is_broken_into_lines_before_it_is_cut_off(show, width):
    """And the tree begins below them."""
    tab = show("?race=question&method=jakiro&round=3&present=1", viewport={"width": width, "height": 900})
    wait_for_tree(tab)
    names = tab.locator("[data-view=tree] .key .legendtext")
    expect(names.last).to_contain_text("bonus")
    edges = names.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().right)")
    assert max(edges) <= tab.locator("[data-view=tree] .key").evaluate("(key) => key.getBoundingClientRect().right")
    low = names.evaluate_all("(all) => Math.max(...all.map((one) => one.getBoundingClientRect().bottom))")
    begin = "(box) => box.getBoundingClientRect().top + box._fullLayout._size.t"
    assert low <= tab.locator("[data-figure=tree]").evaluate(begin)


def test_the_legend_stays_where_a_tree_is_scrolled_sideways(show):
    tab = show("?race=question&method=jakiro&round=3&tab=tree", **SCREENS["narrow"])
    wait_for_tree(tab)
    edges = """() => [...document.querySelectorAll('[data-view=tree] .key .legendtext')]
      .map((one) => one.getBoundingClientRect()).flatMap(({left, right}) => [left, right])"""
    tab.wait_for_function(f"({edges})().length > 8")
    for scrolled in (0, 300):
        tab.locator("[data-view=tree] .scroll").evaluate("(box, by) => { box.scrollLeft = by; }", scrolled)
        assert all(0 <= edge <= 390 for edge in tab.evaluate(edges))


def test_the_legend_follows_the_width_of_the_tree(show):
    """The settings push the page aside, so that it takes two lines, and let it back."""
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    wide = tab.evaluate(LEGEND)
    tab.locator("[data-do=settings]").click()
    tab.wait_for_function(f"(wide) => ({LEGEND})().height > 1.5 * wide.height", arg=wide)
    tab.wait_for_function(f"() => {{ const at = ({LEGEND})(); return at.begin >= at.bottom; }}")
    tab.locator("[data-do=settings]").click()
    tab.wait_for_function(f"(wide) => JSON.stringify(({LEGEND})()) === JSON.stringify(wide)", arg=wide)


def test_plotlys_buttons_do_not_lie_over_the_names_of_levels(show):
    tab = show("?race=question&method=jakiro&round=3&tab=tree", **SCREENS["narrow"])
    wait_for_tree(tab)
    names = tab.locator("[data-figure=tree] .xtick").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().bottom)"
    )
    buttons = tab.locator("[data-figure=tree] .modebar").bounding_box()
    assert names and max(names) <= buttons["y"]


def test_a_caption_that_is_wider_than_a_phone_takes_two_lines(show):
    tab = show("?race=question&method=jakiro&round=3", **SCREENS["narrow"])
    for view, figure in (("run", "classes"), ("run", "calibration"), ("run", "stops"), ("routing", "run_routing")):
        tab.locator(f"[data-tab={view}]").click()
        plot = tab.locator(f"[data-figure={figure}][data-drawn=yes]")
        plot.wait_for()
        edge = tab.locator(f"[data-view={view}]").bounding_box()
        left = plot.evaluate("(one) => one._fullLayout.annotations.findIndex(({x}) => x === 0)")
        caption = plot.locator(f".annotation[data-index='{left}'] .annotation-text").bounding_box()
        assert caption["x"] + caption["width"] <= edge["x"] + edge["width"]
        assert caption["y"] >= plot.bounding_box()["y"]
    tab.set_viewport_size(WIDE)
    tab.wait_for_function(CAPTIONS_BREAK, arg=False)
    tab.set_viewport_size(SCREENS["narrow"]["viewport"])
    tab.wait_for_function(CAPTIONS_BREAK, arg=True)


def test_a_click_on_the_routers_map_shows_the_round(show):
    tab = show("?race=question&method=jakiro&round=3")
    tab.locator("[data-tab=routing]").click()
    tab.wait_for_selector("[data-figure=run_routing][data-drawn=yes]")
    place = tab.evaluate(CELL, [8, 2])
    tab.mouse.click(place["x"], place["y"])
    tab.wait_for_selector("[data-round='7'][data-method=jakiro]")


def test_the_end_of_the_accepted_path_is_in_sight_on_a_narrow_page(show):
    """And the root, once that is chosen."""
    deep = max(range(len(RUN.steps)), key=lambda index: len(RUN.steps[index].accepted))
    tab = show(f"?race=question&method=jakiro&round={deep}&tab=tree", viewport={"width": 390, "height": 844})
    wait_for_tree(tab)
    tab.wait_for_function(STAR_IN_SIGHT)
    tab.locator("[data-view=tree]").focus()
    for _ in RUN.steps[deep].accepted:
        tab.keyboard.press("ArrowLeft")
    tab.wait_for_selector("[data-part=node][data-node='0']")
    tab.wait_for_function(ROOT_IN_SIGHT)


@pytest.mark.parametrize("width", [390, 900, 1440])
def test_captions_are_read_in_full(show, width):
    tab = show("?race=question&method=jakiro&round=3", viewport={"width": width, "height": 900})
    for view, last in (("routing", "run_routing"), ("diversity", "run_diversity"), ("run", "calibration")):
        tab.locator(f"[data-tab={view}]").click()
        tab.wait_for_selector(f"[data-figure={last}][data-drawn=yes]")
        assert tab.locator(f"[data-view={view}] .annotation-text").count() > 1
        assert tab.evaluate(CROWDED) == []


def test_the_tree_is_sketched_until_plotly_is_there(chromium, address):
    tab = chromium.new_context(viewport=WIDE).new_page()  # which has no plotly from an earlier visit
    held = []
    tab.route("**/plotly/*", lambda route: held.append(route))  # playwright takes no method of a list
    tab.goto(f"{address}?race=question&method=jakiro&round=3")
    tab.wait_for_function("performance.getEntriesByName('jakiro-preview').length")
    part(tab, "scrub").fill("4")
    expect(part(tab, "title")).to_have_text(re.compile("Round 5"))
    tab.evaluate(KEEP_SKETCH)
    held[0].continue_()
    wait_for_tree(tab)
    marks = tab.evaluate(MARKS)
    assert len(marks["seen"]) > 10 and all(marks["seen"]) and not marks["unseen"] and not marks["corner"]
    expect(tab.locator("[data-view=tree] canvas.sketch")).to_be_hidden()
    tab.context.close()


def test_a_step_restyles_what_it_changes_and_not_the_page(chromium, address):
    """With some selectors (`:has()` before a `*`) the browser takes every change for one of everything."""
    tab = chromium.new_page(viewport=WIDE)
    visit(tab, address, "?race=question&method=jakiro&motion=0")
    wait_for_tree(tab)
    wait_for_timeline(tab)  # which is drawn after the tree
    tab.wait_for_selector("#viewer [data-models=ready]")  # Gradio's controls have changed, too
    chromium.start_tracing(page=tab, categories=["devtools.timeline"])
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
        wait_for_tree(tab)
    events = json.loads(chromium.stop_tracing())["traceEvents"]
    styled = [one["args"]["elementCount"] for one in events if "elementCount" in one.get("args", {})]
    assert styled and max(styled) < tab.locator("*").count() / 2
    tab.close()


def test_rounds_that_follow_fast_are_sketched_and_the_last_is_drawn(show):
    tab = show("?race=question&method=jakiro&round=0")
    wait_for_tree(tab)
    tab.locator("[data-figure=tree]").hover()
    tab.locator("[data-figure=tree] [data-title='Zoom in']").click()
    sketched = {"drawn": "no", "plot": "hidden", "labels": "hidden", "sketch": "visible"}
    # a loaded machine may take long enough between two frames to draw the one before
    assert any(tab.evaluate(HURRIED) == sketched for _ in range(5))
    wait_for_tree(tab)
    marks = tab.evaluate(MARKS)
    assert len(marks["seen"]) > 3 and all(marks["seen"])
    assert len(marks["unseen"]) > 3 and not any(marks["unseen"])
    assert tab.evaluate(SHOWN) == {"drawn": "yes", "plot": "visible", "labels": "visible", "sketch": "hidden"}
    part(tab, "scrub").fill("3")
    part(tab, "scrub").fill("4")
    tab.click("#tab-routing")  # the tree is drawn although its tab has gone
    tab.click("#tab-tree")
    wait_for_tree(tab)
    assert tab.evaluate(SHOWN)["sketch"] == "hidden"


def test_what_follows_fast_ends_as_what_is_opened_there(show):
    tab, fresh = show("?race=question&method=jakiro&round=0"), show("?race=question&method=jakiro&round=8")
    for view in ("routing", "diversity", "table"):
        drawn = f"[data-view={view}] [data-drawn=yes]"
        for page in (tab, fresh):
            page.locator(f"[data-tab={view}]").click()
            page.wait_for_selector(drawn)
        part(tab, "scrub").fill("0")
        tab.wait_for_selector(drawn)
        tab.evaluate(HURRY)
        tab.wait_for_selector(f"[data-view={view}]:not(:has([data-drawn=no]))")
        if view == "table":
            rows = [page.locator("[data-view=table] tbody tr:visible").all_inner_texts() for page in (tab, fresh)]
            assert rows[0] == rows[1] and len(rows[0]) > 1
        else:
            assert tab.evaluate(PLOTTED, view) == fresh.evaluate(PLOTTED, view)


def test_a_view_that_is_left_before_it_is_drawn_is_drawn(show):
    tab = show("?race=question&method=jakiro&round=0&tab=routing")
    tab.wait_for_selector("[data-figure=routing][data-drawn=yes]")
    wide = tab.evaluate("document.querySelector('[data-figure=routing]')._fullLayout.width")
    tab.evaluate(HURRY)
    tab.locator("[data-tab=outline]").click()
    tab.wait_for_selector("[data-figure=routing][data-drawn=yes]", state="attached")
    tab.locator("[data-tab=routing]").click()
    assert tab.evaluate("document.querySelector('[data-figure=routing]')._fullLayout.width") == wide


def test_without_plotly_the_page_says_so(chromium, address):
    tab = chromium.new_context().new_page()
    tab.route("**/plotly/*", lambda route: route.abort())
    tab.goto(address)
    expect(part(tab, "notice")).to_have_text(re.compile("plotly.js could not be loaded"))
    expect(tab.locator("[data-view=tree] canvas.sketch")).to_be_visible()
    tab.context.close()
