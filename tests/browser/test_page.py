"""The page in a real browser: what it shows, that it follows the address, that nothing is fetched from elsewhere."""

from __future__ import annotations

import html
import json
import re
import threading

import synthetic
from playwright.sync_api import expect
from served import HOSTILE, IN_CHROMIUM, ON_EVERY_SCREEN, SCREENS, launched, open_page, part, served, wait_for_tree

from jakiro.assets import BENCHMARKS
from jakiro.findings import summary
from jakiro.ui import recorded
from jakiro.ui.library import Library
from jakiro.ui.models import Models

pytestmark = IN_CHROMIUM
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
SHOWN = """() => {
  // what of the tree can be seen
  const of = (query) => getComputedStyle(document.querySelector(`#viewer [data-view=tree] ${query}`)).visibility;
  return {drawn: document.querySelector('[data-figure=tree]').dataset.drawn, plot: of('.plot .scatterlayer'),
    labels: of('.labels:not(.sketch)'), sketch: of('.sketch')};
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
PLOTTED = """(name) => {
  // what plotly shows, not what it was given
  const plot = document.querySelector(`[data-figure=${name}]`);
  const texts = [...plot.querySelectorAll('.xtick text, .x2tick text, .annotation-text')].map((one) => one.textContent);
  return {texts, data: plot._fullData.map(({x, y}) => [x, y])};
}"""
COLOURS = """() => {
  const plot = document.querySelector('[data-figure=tree]');
  return [getComputedStyle(document.querySelector('.lane')).backgroundColor, plot.layout.font.color];
}"""


@ON_EVERY_SCREEN
def test_it_opens_on_a_recorded_race_and_says_so(show):
    tab = show()
    wait_for_tree(tab)
    assert part(tab, "kind").text_content() == "recorded"
    assert "synthetic" in part(tab, "source").text_content() and "2026-01-01" in part(tab, "source").text_content()
    assert tab.locator(".lane").count() == 3
    assert tab.locator(".lane.chosen h2").text_content() == "Jakiro"
    assert re.match(r"round \d+ / 12", part(tab, "count").text_content())
    assert part(tab, "why").text_content()
    assert tab.locator("[data-figure=tree] .points path").count() > 10


def test_every_view_is_in_the_address(show):
    tab = show("?race=question&method=eagle2&round=3&node=2&tab=table&clock=passes")
    assert tab.locator("#viewer").get_attribute("id") == "viewer"
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    assert tab.locator("tr.now").get_attribute("data-node") == "2"
    assert part(tab, "node").get_attribute("data-node") == "2"
    assert part(tab, "clock").input_value() == "passes"
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='4'][data-method=eagle2]")
    tab.wait_for_function("new URLSearchParams(location.search).get('round') === '4'")


def test_an_address_that_does_not_fit_shows_what_there_is(show):
    tab = show("?race=question&method=medusa&round=9999&node=77777&tab=nonsense&clock=lunar")
    tab.wait_for_selector("[data-round='11'][data-method=jakiro]")
    assert tab.locator("[role=tab][aria-selected=true]").text_content() == "Tree"


@ON_EVERY_SCREEN
def test_keys_and_slider_and_tokens_move_the_one_playhead(show):
    tab = show("?race=question&round=5")
    tab.wait_for_selector("[data-round='5'][data-method]")
    for key, round in (("k", 6), ("J", 5), ("Shift+ArrowRight", 11), ("Home", 0), ("End", 11)):
        tab.keyboard.press(key)
        tab.wait_for_selector(f"[data-round='{round}'][data-method]")
    part(tab, "scrub").fill("2")
    tab.wait_for_selector("[data-round='2'][data-method]")
    tab.locator(".lane[data-method=eagle2] .text [data-round='7']").first.click()
    tab.wait_for_selector("[data-round='7'][data-method=eagle2]")
    assert tab.locator(".lane[data-method=eagle2] .now").count() >= 1
    assert part(tab, "scrub").input_value() == "7"


def test_a_finger_that_scrolls_over_the_timeline_leaves_the_playhead(show):
    tab = show("?race=question&round=5")
    tab.wait_for_selector("[data-figure=tree][data-drawn=yes]")
    touch = """([kind, x]) => document.querySelector('[data-part=timeline]').dispatchEvent(new PointerEvent(kind, {
      bubbles: true, pointerId: 7, pointerType: 'touch', button: 0, clientX: x}))"""

    def round_after(*events):
        for kind in events:
            tab.evaluate(touch, [f"pointer{kind}", 160])
        return int(
            tab.evaluate(
                "new Promise(requestAnimationFrame).then(() => document.querySelector('[data-part=scrub]').value)"
            )
        )

    assert round_after("down", "cancel", "move", "up") == 5
    assert round_after("down") == 5 > round_after("up")
    tab.locator("#viewer [data-do=last]").click()
    assert round_after("down") == 11 > round_after("move", "up")


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


def test_labels_stand_at_their_points_through_rounds_and_zoom(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.wait_for_selector("[data-view=tree] canvas.labels")
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
        for (text, x, y), (source, left, top) in zip(labels["written"], labels["seen"], strict=True):
            assert text in html.unescape(source)
            assert -0.1 < x - left < 25
            assert -0.1 < y - top < 25
    assert counts[1] > counts[2]  # zoomed in, some points are out of sight


def test_a_download_is_the_whole_figure(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.evaluate("Plotly.downloadImage = (figure, look) => { window.asked = {figure, look}; }")
    tab.locator("[data-figure=tree]").hover()
    tab.locator("[data-figure=tree] [data-title='Download as a picture']").click()
    asked = tab.evaluate("window.asked")
    texts = [text for trace in asked["figure"]["data"] for text in trace.get("text", []) if text]
    assert len(texts) > 10
    assert any(trace.get("showlegend") is not False for trace in asked["figure"]["data"])
    shown = tab.evaluate("document.querySelector('[data-figure=tree]')._fullLayout.xaxis.range")
    assert asked["figure"]["layout"]["xaxis"]["range"] == shown


@ON_EVERY_SCREEN
def test_tabs_show_their_figures(show):
    tab = show("?race=question&method=jakiro&round=4")
    figures = {"routing": "run_routing", "diversity": "run_diversity", "run": "classes", "tree": "tree"}
    for name, figure in figures.items():
        tab.locator(f"[data-tab={name}]").click()
        tab.wait_for_selector(f"[data-figure={figure}][data-drawn=yes]:visible")
    # a clip path by its full address is lost when the address changes, and what it clips with it
    assert tab.locator("[clip-path]").count() > 0
    assert tab.locator("[clip-path*=http]").count() == 0
    tab.goto(tab.url.split("?")[0] + "?race=question&method=eagle2&tab=routing")
    tab.wait_for_selector("[data-view=routing] .none:visible")


def test_benchmarks_open_below_and_are_in_the_address(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    part(tab, "benchmarks").locator("summary").click()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=cpu]")
    tab.wait_for_function("location.search.includes('bench=')")
    assert "python -m jakiro bench" in part(tab, "report-facts").text_content()
    assert part(tab, "report-table").locator("tbody tr").count() >= 3
    part(tab, "report").select_option("cpu-60")
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=cpu-60]")
    tab.wait_for_function("location.search.includes('bench=cpu-60')")
    tab.click("[data-do=next]")
    tab.wait_for_selector("[data-round='4']")
    assert part(tab, "benchmarks").get_attribute("open") is not None
    part(tab, "benchmarks").locator("summary").click()
    tab.wait_for_function("!location.search.includes('bench=')")


def test_the_help_says_what_experiments_found_and_leads_to_them(show):
    report = json.loads((BENCHMARKS / "decoupling-cpu.json").read_text(encoding="utf-8"))
    said = " ".join(summary(report["experiment"]))
    tab = show("?race=question")
    tab.keyboard.press("?")
    expect(part(tab, "findings")).to_contain_text(said)
    part(tab, "findings").locator("button").click()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=decoupling-cpu]")
    assert not part(tab, "help").is_visible()
    assert part(tab, "report-summary").text_content() == said
    assert part(tab, "benchmarks").bounding_box()["y"] < 100
    tab.select_option("[data-part=report]", "cpu")
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=cpu]")
    assert not part(tab, "report-summary").is_visible()


def test_text_from_a_trace_is_never_mark_up(show):
    tab = show("?race=hostile&method=jakiro&round=0&tab=table")
    tab.wait_for_selector("[data-view=table] tr")
    tab.locator("[data-tab=tree]").click()
    wait_for_tree(tab)
    assert HOSTILE in tab.locator(".lane").first.text_content()
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("#viewer img").count() == 0


def test_dark_and_light_follow_the_system_and_the_button(show):
    tab = show("?race=question", color_scheme="dark")
    wait_for_tree(tab)

    dark = tab.evaluate(COLOURS)
    tab.locator("[data-do=theme]").click()
    changed = "(before) => document.querySelector('[data-figure=tree]').layout.font.color !== before"
    tab.wait_for_function(changed, arg=dark[1])
    light = tab.evaluate(COLOURS)
    assert light[0] != dark[0]
    tab.locator("[data-do=theme]").click()
    tab.wait_for_function(changed, arg=light[1])
    assert tab.evaluate(COLOURS) == dark


def test_a_narrow_screen_begins_with_the_outline(show):
    tab = show("?race=question", **SCREENS["narrow"])
    tab.wait_for_selector("[data-view=outline] [aria-current=true]")


@ON_EVERY_SCREEN
def test_a_live_race_streams_and_can_be_opened(show):
    tab = show("?motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("the an the")
    tab.locator("[data-do=run]").click()
    tab.wait_for_selector("#viewer [data-running=yes]")
    tab.wait_for_selector("#viewer [data-running=no]")
    expect(part(tab, "kind")).to_have_text("live")
    expect(part(tab, "prompt")).to_have_text("the an the")
    expect(part(tab, "lossless")).to_contain_text("lossless: 3/3")
    wait_for_tree(tab)
    tab.wait_for_function("location.search.includes('race=live-')")  # written at most four times a second
    tab.reload()  # the address alone brings it back
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "prompt")).to_have_text("the an the")


def test_a_stopped_race_is_shown_as_far_as_it_went(show):
    tab = show("?motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("an the an")
    tab.locator("[data-do=run]").click()
    tab.wait_for_selector(".lane .text span")
    tab.locator("[data-do=stop]").click()
    tab.wait_for_selector("#viewer [data-running=no]")
    expect(part(tab, "prompt")).to_have_text("an the an")
    expect(part(tab, "notice")).to_have_text(re.compile("Stopped"))
    expect(part(tab, "lossless")).to_have_class(re.compile("good"))  # identical as far as all went
    assert tab.locator("[data-do=run]").is_enabled()
    part(tab, "races").select_option("question")
    expect(part(tab, "prompt")).to_have_text("Why?")
    expect(part(tab, "notice")).to_be_hidden()  # it was about the other race
    part(tab, "races").select_option(label="live: an the an")  # and is there for the whole visit
    expect(part(tab, "kind")).to_have_text("live")


def test_enter_before_the_models_are_there_says_so(chromium, tmp_path):
    with launched(Models(lambda: threading.Event().wait()), Library(tmp_path)) as address:
        tab, trouble = open_page(chromium, address)
        tab.wait_for_selector("#viewer [data-models=loading]")
        tab.locator("#prompt textarea").fill("the an")
        tab.locator("#prompt textarea").press("Enter")
        expect(part(tab, "notice")).to_contain_text("models are loading")
        tab.context.close()
    assert trouble == []


def test_what_was_asked_for_last_is_shown(show):
    tab = show("?race=question&method=jakiro&round=1&node=2")
    wait_for_tree(tab)
    held = []
    tab.route("**/races/hostile.json", lambda route: held.append(route))
    part(tab, "races").select_option("hostile")
    tab.wait_for_timeout(300)
    part(tab, "races").select_option("question")
    expect(part(tab, "title")).not_to_have_text(re.compile("Round 2 "))  # a race that is chosen begins anew
    [late] = held
    late.continue_()
    tab.wait_for_timeout(500)
    expect(part(tab, "prompt")).to_have_text("Why?")


def test_arrow_keys_in_the_settings_stay_there(show):
    tab = show("?race=question&method=jakiro&round=3")
    tab.keyboard.press("ArrowRight")
    expect(part(tab, "title")).to_have_text(re.compile("Round 5"))
    tab.locator("[data-do=settings]").click()
    tab.locator("#settings .method-settings button").nth(1).click()
    tab.locator("#settings input[type=range]:visible").first.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(300)
    expect(part(tab, "title")).to_have_text(re.compile("Round 5"))


def test_a_definition_describes_what_it_is_of(show):
    tab = show("?race=question")
    number = tab.locator(".lane .numbers [data-help]").first
    number.focus()
    described = tab.locator(f"#{number.get_attribute('aria-describedby')}")
    expect(described).to_have_text(number.get_attribute("data-help"))
    number.blur()
    assert number.get_attribute("aria-describedby") is None


def test_bad_input_is_said_on_the_page_and_leaves_what_was_shown(show):
    tab = show("?race=question")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.locator("#prompt textarea").fill("   ")
    tab.locator("[data-do=run]").click()
    part(tab, "notice").get_by_text("the prompt is empty").wait_for()
    assert part(tab, "kind").text_content() == "recorded" and tab.locator(".lane").count() == 3
    assert tab.locator("[data-do=run]").is_enabled()


def test_the_page_without_recordings_says_what_to_do(chromium, tmp_path):
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address)
        assert tab.locator("[data-ready]").get_attribute("data-ready") == "empty"
        assert "press Run live" in part(tab, "empty-text").text_content()
        tab.wait_for_selector("#viewer [data-models=failed]")
        assert "without a model" in part(tab, "notice").text_content()
        assert tab.locator("[data-do=run]").is_disabled()
        tab.context.close()
    assert trouble == []


def test_the_tree_is_sketched_until_plotly_is_there(chromium, address):
    tab = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
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


def test_rounds_that_follow_fast_are_sketched_and_the_last_is_drawn(chromium, address):
    tab, trouble = open_page(chromium, address, "?race=question&method=jakiro&round=0")
    wait_for_tree(tab)
    tab.locator("[data-figure=tree]").hover()
    tab.locator("[data-figure=tree] [data-title='Zoom in']").click()
    sketched = tab.evaluate(HURRIED)
    assert sketched == {"drawn": "no", "plot": "hidden", "labels": "hidden", "sketch": "visible"}
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
    tab.context.close()
    assert trouble == []


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


def test_a_run_of_one_token_says_so_and_leaves_the_views_whole(chromium, tmp_path):
    run = synthetic.tree_trace(3, nodes=8)
    recorded.save(tmp_path, "long", "Long", "Why?", [run])
    recorded.save(tmp_path, "short", "Short", "Why?", [synthetic.vanilla_trace(run.tokens[:1])])
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address, "?race=long")
        wait_for_tree(tab)
        part(tab, "races").select_option("short")
        note = tab.locator("[data-part=views] > .none")
        expect(note).to_contain_text("ended with its first token")
        for view in ("table", "compare", "tree"):
            tab.locator(f"[data-tab={view}]").click()
            expect(note).to_be_visible()
        part(tab, "races").select_option("long")
        wait_for_tree(tab)
        expect(note).to_be_hidden()
        tab.locator("[data-tab=table]").click()
        expect(tab.locator("[data-view=table] tbody tr").nth(1)).to_be_visible()
        tab.locator("[data-tab=compare]").click()
        expect(tab.locator("[data-view=compare] .primary")).to_be_visible()
        tab.context.close()
    assert trouble == []


def test_without_plotly_the_page_says_so(chromium, address):
    tab = chromium.new_context().new_page()
    tab.route("**/plotly/*", lambda route: route.abort())
    tab.goto(address)
    expect(part(tab, "notice")).to_have_text(re.compile("plotly.js could not be loaded"))
    expect(tab.locator("[data-view=tree] canvas.sketch")).to_be_visible()
    tab.context.close()
