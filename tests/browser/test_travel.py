"""One playhead for all lanes: notable rounds, ten at a time, the replay's speed, and the page for a talk."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import synthetic
from playwright.sync_api import expect
from served import DROP, FEW_FRAMES, HEAR_THE_REPLAY, IN_CHROMIUM, REPLAYED, WIDE_AND_NARROW, part, wait_for_tree

from jakiro.analysis import stops as ways
from jakiro.analysis.endings import MOMENTS, moments
from jakiro.assets import TRACES
from jakiro.graph import REJECTED, states
from jakiro.trace import to_json
from jakiro.traces import traces_json
from jakiro.ui.why import whys

pytestmark = IN_CHROMIUM
RUN = synthetic.tree_trace(12, nodes=24)  # as the page has it
KINDS = [moments(RUN, index) for index in range(len(RUN.steps))]
REJECTING = next(index for index, step in enumerate(RUN.steps) if index and REJECTED in states(step))
# A replay then does not end by itself, however long a busy machine takes to do something meanwhile.
SLOW_CLOCK = """() => {
  const own = window.requestAnimationFrame;
  window.requestAnimationFrame = (draw) => own((now) => draw(now / 1000));
}"""
CLOCK = """(change) => new Promise((done) => {
  // ms of the replay's clock until the seventh round: a frame is two of them, however long it takes to draw
  // `change`: [part, value] that is chosen in a list after ten frames, null if that stops it
  const slider = document.querySelector('[data-part=scrub]'), play = document.querySelector('[data-do=play]');
  const own = [window.requestAnimationFrame, window.cancelAnimationFrame], waiting = new Map();
  let now = 0, count = 0;
  const frame = () => {
    const due = [...waiting.values()];
    waiting.clear();
    now += 2;
    due.forEach((draw) => draw(now));
    if (change && now === 20) {
      const list = document.querySelector(`[data-part=${change[0]}]`);
      list.value = change[1];
      list.dispatchEvent(new Event('change', {bubbles: true}));
    }
    if (!play.textContent.includes('Pause') || now > 1e6) return done(null);
    if (Number(slider.value) < 6) return setTimeout(frame);
    play.click(); // which stops it
    [window.requestAnimationFrame, window.cancelAnimationFrame] = own;
    waiting.forEach((draw) => requestAnimationFrame(draw));
    done(now);
  };
  requestAnimationFrame(() => { // what waited for the browser's own frame has had it
    window.requestAnimationFrame = (draw) => { waiting.set(++count, draw); return count; };
    window.cancelAnimationFrame = (id) => waiting.delete(id);
    play.click();
    frame();
  });
})"""

HELD = """async (method) => {
  // a replay that is held when a lane is through, and goes on: hidden tokens at the hold, later, and two frames on
  const own = [window.requestAnimationFrame, window.cancelAnimationFrame], waiting = new Map();
  const play = document.querySelector('[data-do=play]'), said = [];
  const hidden = (lane = '') => document.querySelectorAll(`.lane${lane} .later`).length;
  let now = 0, count = 0;
  window.requestAnimationFrame = (draw) => { waiting.set(++count, draw); return count; };
  window.cancelAnimationFrame = (id) => waiting.delete(id);
  const frame = () => {
    const due = [...waiting.values()];
    waiting.clear();
    now += 10;
    due.forEach((draw) => draw(now));
    return new Promise((done) => setTimeout(done));
  };
  const note = () => said.push([hidden(), play.textContent.split(' ').at(-1)]);
  play.click();
  for (let at = 0; at < 1000 && (at < 3 || hidden(`[data-method=${method}]`)); at += 1) await frame();
  play.click();
  note();
  document.querySelector('[data-tab=table]').click(); // which is no move
  for (let at = 0; at < 50; at += 1) await frame();
  note();
  play.click();
  await frame();
  await frame();
  note();
  [window.requestAnimationFrame, window.cancelAnimationFrame] = own;
  waiting.forEach((draw) => requestAnimationFrame(draw));
  return said;
}"""
OUT_OF_SIGHT = """async () => {
  // rounds of which some word is not in its lane's box
  const slider = document.querySelector('[data-part=scrub]'), found = [];
  for (let round = 0; round <= Number(slider.max); round += 1) {
    slider.value = round;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    for (const box of document.querySelectorAll('.lane .text')) {
      const {top, bottom} = box.getBoundingClientRect();
      const words = [...box.querySelectorAll('.now, .same')].filter((one) => one.textContent.trim());
      const seen = words.every((one) => {
        const at = [...one.getClientRects()].at(-1); // its space may be on the line before
        return top <= at.top && at.bottom <= bottom;
      });
      if (!seen) found.push([box.ariaLabel, round]);
    }
  }
  return [Number(slider.max), found];
}"""
LINES = """() => {
  // px of a lane's line of text, and how many lines its box shows
  const text = document.querySelector('.lane .text'), line = parseFloat(getComputedStyle(text).lineHeight);
  return [line, text.clientHeight / line];
}"""


LABELS = """() => {
  // px of the largest label of the tree's points
  const pen = document.querySelector('[data-view=tree] canvas.labels').getContext('2d'), sizes = [];
  pen.fillText = () => sizes.push(parseFloat(pen.font.replace('bold ', '')));
  document.querySelector('[data-figure=tree]').emit('plotly_afterplot');
  delete pen.fillText;
  return Math.max(...sizes);
}"""
SMALL_PRINT = """() => {
  // px of the tree's legend, of its levels' names, of the labels of its points
  const plot = document.querySelector('[data-figure=tree]'), sizes = [];
  const texts = document.querySelectorAll('[data-view=tree] :is(.legendtext, .xtick text, .shape-label text)');
  const pen = document.querySelector('[data-view=tree] canvas.labels').getContext('2d');
  pen.fillText = () => sizes.push(parseFloat(pen.font.replace('bold ', '')));
  plot.emit('plotly_afterplot');
  delete pen.fillText;
  return [...sizes, ...[...texts].map((one) => parseFloat(getComputedStyle(one).fontSize))];
}"""


def at(tab, round):
    tab.wait_for_selector(f"[data-round='{round}'][data-method=jakiro]")


@WIDE_AND_NARROW
def test_n_and_p_go_from_one_notable_round_to_the_next(show):
    notable = [index for index, kinds in enumerate(KINDS) if kinds]
    tab = show("?race=question&method=jakiro&round=0")
    for round in notable[notable[0] == 0 :]:
        tab.keyboard.press("n")
        at(tab, round)
        names = [f"✦ {MOMENTS[kind][0]}" for kind in KINDS[round]]
        expect(part(tab, "moments").locator("span")).to_have_text(names)
    tab.keyboard.press("n")
    expect(part(tab, "notice")).to_contain_text("no such round after")
    tab.keyboard.press("p")
    at(tab, notable[-2])


def test_one_kind_of_notable_round_can_be_asked_for_and_is_in_the_address(show):
    kind = next(kind for kinds in KINDS[1:] for kind in kinds)
    tab = show("?race=question&method=jakiro&round=0")
    at(tab, 0)
    part(tab, "moment").select_option(kind)
    tab.locator("[data-do=after]").click()
    at(tab, next(index for index, kinds in enumerate(KINDS) if index and kind in kinds))
    tab.wait_for_function("(kind) => new URLSearchParams(location.search).get('moment') === kind", arg=kind)


@WIDE_AND_NARROW
def test_every_round_says_why_it_ended(show):
    tab = show("?race=question&method=jakiro&round=0")
    for round in range(len(RUN.steps)):
        at(tab, round)
        expect(part(tab, "why")).to_have_text(whys(RUN)[round])
        tab.keyboard.press("ArrowRight")


@WIDE_AND_NARROW
def test_every_key_of_the_transport_has_a_button(show):
    tab = show("?race=question&method=jakiro&round=0")
    at(tab, 0)
    for name, round in (("far-next", 10), ("next", 11), ("back", 10), ("far-back", 0), ("last", 11), ("first", 0)):
        tab.locator(f"[data-do={name}]").click()
        at(tab, round)
    tab.keyboard.press("e")
    expect(part(tab, "exports").locator("a").first).to_be_visible()
    tab.keyboard.press("?")
    for key in ("N, P", "Space", "Shift P", "S", "E"):
        expect(part(tab, "help").get_by_text(key, exact=True)).to_be_visible()


def test_the_replay_has_a_speed(show):
    tab = show("?race=question&method=jakiro&round=0&speed=0.25")
    at(tab, 0)
    slow = tab.evaluate(CLOCK)
    part(tab, "speed").select_option("4")
    tab.locator("[data-do=first]").click()
    at(tab, 0)
    assert slow > 10 * tab.evaluate(CLOCK)  # 16 times, but for a frame at either end


def test_a_race_that_is_over_at_once_is_replayed_in_slow_motion(show):
    tab = show("?race=question&method=jakiro&round=0")
    at(tab, 0)
    expect(part(tab, "speed")).to_have_value("slow")
    slow, ends = (
        tab.evaluate(CLOCK),
        tab.evaluate("""async () => {
      const {replay} = await (await fetch('races/question.json')).json();
      return replay.traces.map(({rounds}) => rounds.at);
    }"""),
    )
    seconds = ends[-1][5]  # until the seventh round
    assert slow == pytest.approx(10_000 * seconds / max(lane[-1] for lane in ends), rel=0.02)
    part(tab, "clock").select_option("passes")
    expect(part(tab, "speed")).to_have_value("1")
    part(tab, "clock").select_option("wall")
    part(tab, "speed").select_option("1")
    tab.wait_for_function("location.search.includes('speed=1')")


def test_space_after_a_click_is_the_pages_own(show):
    """And not the button's that was clicked: it would end the presentation."""
    tab = show("?race=question&method=jakiro&round=0&speed=0.25")
    at(tab, 0)
    tab.evaluate(SLOW_CLOCK)
    tab.locator("[data-do=present]").click()
    tab.wait_for_selector("#viewer.presenting")
    tab.keyboard.press("Space")
    expect(part(tab, "play")).to_contain_text("Pause")
    expect(tab.locator("#viewer.presenting")).to_have_count(1)


def test_figures_of_a_talk_grow_with_the_window_by_the_next_move(show):
    tab = show("?race=question&method=jakiro&round=0&tab=run&present=1", viewport={"width": 1000, "height": 900})
    size = "document.querySelector('[data-figure=acceptance]')?._fullLayout?.font.size"
    tab.wait_for_selector("[data-figure=acceptance][data-drawn=yes]")
    before = tab.evaluate(size)
    tab.set_viewport_size({"width": 1900, "height": 900})
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function(f"{size} > 1.2 * {before}")


def test_a_replay_goes_on_at_another_speed(show):
    tab = show("?race=question&method=jakiro&round=0&speed=0.25")
    at(tab, 0)
    slow = tab.evaluate(CLOCK)
    tab.locator("[data-do=first]").click()
    at(tab, 0)
    quick = tab.evaluate(CLOCK, ["speed", "4"])
    assert quick and slow - 20 > 10 * (quick - 20)  # 16 times, but for a frame at either end


def test_a_replay_goes_on_from_its_round_on_another_clock(show):
    tab = show("?race=question&method=jakiro&round=4&speed=1&clock=passes")
    at(tab, 4)
    from_five_to_seven = tab.evaluate(CLOCK)
    part(tab, "clock").select_option("wall")
    tab.locator("[data-do=back]").click()
    tab.locator("[data-do=back]").click()
    at(tab, 4)
    passes = tab.evaluate(CLOCK, ["clock", "passes"])  # which it is told in its first ten frames
    assert passes and abs(passes - 20 - from_five_to_seven) < 130  # a pass is 125


def test_a_replay_goes_on_in_another_tab_and_ends_with_a_move(show):
    tab = show("?race=question&method=jakiro&round=0&speed=0.25")
    at(tab, 0)
    wait_for_tree(tab)
    tab.evaluate(SLOW_CLOCK)
    part(tab, "play").click()
    for name in ("table", "outline", "tree"):
        tab.locator(f"[data-tab={name}]").click()
        expect(tab.locator(f"[data-tab={name}]")).to_have_attribute("aria-selected", "true")
        expect(part(tab, "play")).to_contain_text("Pause")
    before = tab.evaluate("document.querySelector('[data-figure=tree]').layout.font.color")
    tab.locator("[data-do=theme]").click()  # which draws all anew
    recoloured = "(before) => document.querySelector('[data-figure=tree]').layout.font.color !== before"
    tab.wait_for_function(recoloured, arg=before)
    expect(part(tab, "play")).to_contain_text("Pause")
    tab.locator(".lane[data-method=eagle2] h2 button").click()
    expect(part(tab, "play")).to_contain_text("Play")


def test_a_replay_that_pauses_holds_its_picture_and_goes_on_from_there(show):
    tab = show("?race=question&method=jakiro&round=0&speed=1&clock=passes")
    at(tab, 0)
    held, later, on = tab.evaluate(HELD, "jakiro")
    assert held == later and held[0] > 0 and held[1] == "Play"
    assert on[1] == "Pause" and held[0] - 2 <= on[0] <= held[0]
    tab.keyboard.press("Space")
    tab.keyboard.press("Home")  # a move: all of it is there
    at(tab, 0)
    expect(tab.locator(".lane .later")).to_have_count(0)


def test_all_words_of_a_round_are_seen(show):
    """Also where the first token's space, or its line feeds, are on the line before."""
    tab = show("?race=question", viewport={"width": 1440, "height": 800})
    names = ("vanilla", "eagle2", "jakiro")
    tab.evaluate(DROP, "\n".join((TRACES / f"chat-{name}.json").read_text(encoding="utf-8") for name in names))
    expect(part(tab, "kind")).to_have_text("opened")
    last, found = tab.evaluate(OUT_OF_SIGHT)
    assert last > 30 and found == []


@WIDE_AND_NARROW
@pytest.mark.parametrize("size", ["", "&present=1"])
def test_lines_of_a_lane_are_whole_pixels_high_and_shown_whole(show, size):
    """WebKit makes them so, whatever is asked for: where the words of a round were looked for, others stood."""
    line, lines = show(f"?race=question&motion=0{size}").evaluate(LINES)
    assert line % 1 == 0 and lines in (2, 3)


def test_the_counter_is_read_out_where_it_says_something_new_and_not_during_a_replay(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.evaluate("""() => {
      window.written = [];
      const watched = {childList: true, characterData: true, subtree: true};
      const counter = document.querySelector('[data-part=count]');
      new MutationObserver(() => written.push(counter.textContent)).observe(counter, watched);
    }""")
    tab.locator("[data-tab=table]").click()
    expect(tab.locator("[data-view=table]")).to_be_visible()
    tab.keyboard.press("ArrowRight")
    at(tab, 4)
    assert tab.evaluate("written") == ["round 5 / 12"]
    expect(part(tab, "count")).not_to_have_attribute("aria-live", "off")
    tab.evaluate(SLOW_CLOCK)
    for live in ("off", "polite"):
        part(tab, "play").click()
        expect(part(tab, "play")).to_contain_text("Pause" if live == "off" else "Play")
        assert {part(tab, name).get_attribute("aria-live") for name in ("count", "why", "fate")} == {live}


def test_traces_without_seconds_are_replayed_on_the_clock_of_passes(show):
    still = {"draft_s": 0.0, "verify_s": 0.0, "overhead_s": 0.0}
    runs = [
        replace(run, prefill_s=0.0, steps=[replace(step, **still) for step in run.steps])
        for run in (synthetic.vanilla_trace(RUN.tokens), RUN)
    ]
    tab = show("?race=question")
    tab.evaluate(DROP, traces_json(runs))
    expect(part(tab, "kind")).to_have_text("opened")
    expect(part(tab, "clock")).to_have_value("passes")
    assert "This one: draft" not in part(tab, "count").get_attribute("data-help")
    tab.locator("[data-do=first]").click()
    at(tab, 0)
    ms = tab.evaluate(CLOCK)
    assert ms and 700 < ms < 1000  # six or seven passes, eight a second
    part(tab, "clock").select_option("wall")  # which there is not
    expect(part(tab, "clock")).to_have_value("passes")
    assert tab.locator(".lane[data-method=vanilla] .text .same").first.get_attribute("data-round") == "6"
    tab.evaluate(DROP, traces_json([runs[0], RUN]))  # one has its times: there is a wall clock
    expect(part(tab, "clock")).to_have_value("wall")
    bars = tab.locator(".lane .bar i")
    assert bars.evaluate_all("(all) => all.map((one) => one.style.width)") == ["0%", "100%"]


def test_the_replay_ends_on_the_last_round(show):
    tab = show("?race=question&method=vanilla&round=0&speed=4")
    tab.wait_for_selector("[data-round='0'][data-method=vanilla]")
    tab.evaluate(HEAR_THE_REPLAY)
    part(tab, "play").click()
    tab.wait_for_function(REPLAYED)
    last = int(part(tab, "scrub").get_attribute("max"))
    tab.wait_for_selector(f"[data-round='{last}'][data-method=vanilla]")


def test_what_is_said_during_a_replay_outlasts_it(show):
    tab = show("?race=question&method=vanilla&round=0&speed=4")
    tab.wait_for_selector("[data-round='0'][data-method=vanilla]")
    part(tab, "play").click()
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_contain_text("address of this view")
    expect(part(tab, "play")).to_contain_text("Play")
    expect(part(tab, "notice")).to_contain_text("address of this view")
    tab.keyboard.press("Home")
    expect(part(tab, "notice")).to_be_empty()


def test_a_bar_of_where_rounds_stopped_leads_to_them(show):
    found = [ways.stop(RUN, index) for index in range(len(RUN.steps))]
    way = next(way for way in found if found.count(way) > 1 and way not in MOMENTS)
    own = [index for index, one in enumerate(found) if one == way]
    tab = show("?race=question&method=jakiro&tab=run")
    bars = tab.locator("[data-figure=stops] .bars").first.locator("path")
    bars.nth([one for one in ways.STOPS if one in found].index(way)).click(position={"x": 2, "y": 4}, force=True)
    at(tab, own[0])
    tab.wait_for_selector("[data-view=tree]")
    expect(part(tab, "moment")).to_have_value(way)
    tab.keyboard.press("n")
    at(tab, own[1])
    tab.wait_for_function("(way) => new URLSearchParams(location.search).get('moment') === way", arg=way)


def test_a_key_before_the_first_frame_counts(show):
    tab = show("?race=question&method=jakiro&round=0", script=FEW_FRAMES)
    tab.keyboard.press("ArrowRight")
    at(tab, 1)


def test_for_a_talk_only_the_race_is_shown(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.keyboard.press("Shift+P")
    expect(tab.locator("#prompt")).to_be_hidden()
    expect(part(tab, "benchmarks")).to_be_hidden()
    expect(part(tab, "title")).to_have_text(re.compile("Round 4"))
    tab.wait_for_function("location.search.includes('present=1')")
    expect(part(tab, "present")).to_have_text("Exit")
    expect(part(tab, "present")).to_have_attribute("aria-pressed", "true")
    wait_for_tree(tab)
    sizes = tab.evaluate(SMALL_PRINT)
    assert min(sizes) > 12, sizes  # px
    tree, timeline = tab.locator("[data-figure=tree]"), part(tab, "timeline")
    box = tree.bounding_box()
    assert box["y"] + box["height"] < min(900, timeline.bounding_box()["y"])  # all of it is on the screen
    tab.keyboard.press("e")  # there is no menu to open, and none to close first
    tab.keyboard.press("Escape")
    expect(tab.locator("#prompt")).to_be_visible()
    expect(part(tab, "present")).to_have_text("Present")
    assert timeline.bounding_box()["y"] < tree.bounding_box()["y"]


@pytest.mark.parametrize(("width", "beside"), [(1280, False), (1700, True)])
def test_for_a_talk_controls_stay_where_they_are(show, width, beside):
    """The inspector, whose tokens may take several lines, is below them or beside."""
    tab = show("?race=question&method=jakiro&round=0&present=1", viewport={"width": width, "height": 800})
    wait_for_tree(tab)
    tops = set()
    for round in range(len(RUN.steps)):
        at(tab, round)
        tops.add(part(tab, "play").bounding_box()["y"] + tab.evaluate("scrollY"))
        tab.keyboard.press("ArrowRight")
    assert len(tops) == 1
    inspector, tree = part(tab, "node").bounding_box(), tab.locator("[data-figure=tree]").bounding_box()
    assert (inspector["x"] > tree["x"] + tree["width"]) == beside
    assert (inspector["y"] > part(tab, "play").bounding_box()["y"]) != beside


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (1280, 720), (1600, 780)])
def test_for_a_talk_controls_are_on_the_screen(show, width, height):
    """Of a low projector, too: they lie at its foot until one has scrolled to where they are. So is the tree."""
    tab = show("?race=question&method=jakiro&round=3&present=1", viewport={"width": width, "height": height})
    wait_for_tree(tab)
    transport = tab.locator("#viewer .transport")
    box = transport.bounding_box()
    assert box["y"] + box["height"] <= height
    assert box["y"] - tab.locator("[data-figure=tree]").bounding_box()["y"] > 180
    part(tab, "play").click()  # nothing lies over it
    part(tab, "play").click()
    tab.evaluate("scrollTo(0, 1e6)")
    tree, timeline = tab.locator("[data-figure=tree]"), part(tab, "timeline")
    assert tree.bounding_box()["y"] < transport.bounding_box()["y"] < timeline.bounding_box()["y"]


def test_a_presenters_clicker_steps_in_a_talk(show):
    """It sends the keys of a page, which scroll it elsewhere."""
    tab = show("?race=question&method=jakiro&round=3&present=1", viewport={"width": 1024, "height": 768})
    wait_for_tree(tab)
    for key, round in (("PageDown", 4), ("PageDown", 5), ("PageUp", 4)):
        tab.keyboard.press(key)
        at(tab, round)
    tab.wait_for_timeout(300)
    assert tab.evaluate("scrollY") == 0
    tab.keyboard.press("Escape")
    expect(tab.locator("#viewer.presenting")).to_have_count(0)
    tab.keyboard.press("PageDown")
    tab.wait_for_function("scrollY > 200")
    at(tab, 4)


def test_for_a_talk_labels_are_larger_where_there_is_room(show):
    tab = show("?race=question&method=jakiro&round=3", viewport={"width": 1440, "height": 900})
    for width, larger in ((1440, True), (700, False)):
        tab.set_viewport_size({"width": width, "height": 900})
        sizes = []
        for talk in (1, 1.3):
            tab.wait_for_selector(f"[data-figure=tree][data-drawn=yes][data-shows^='question jakiro light {talk} ']")
            tab.wait_for_timeout(300)
            sizes.append(tab.evaluate(LABELS))
            tab.keyboard.press("Shift+P")
        assert (sizes[1] > sizes[0]) == larger


def test_the_transport_is_one_row_on_a_laptop(show):
    """Whatever the number of the round has for digits, and the button for a word."""
    tab = show("?race=question&method=jakiro&round=8", viewport={"width": 1280, "height": 720})
    at(tab, 8)
    tab.evaluate(SLOW_CLOCK)
    box = "(one) => { const {left, top, width} = one.getBoundingClientRect(); return `${left} ${top} ${width}`; }"
    places = {name: set() for name in ("play", "scrub", "clock", "against", "tabs")}
    for key in ("ArrowRight", "ArrowRight", " ", " "):
        for name, seen in places.items():
            seen.add(part(tab, name).evaluate(box))
        tab.keyboard.press(key)
        tab.wait_for_timeout(100)
    assert [name for name, seen in places.items() if len(seen) > 1] == []
    play, against = (part(tab, name).bounding_box() for name in ("play", "against"))
    assert abs(play["y"] - against["y"]) < 10


def test_escape_ends_a_talk_from_a_list_and_after_the_menu_was_open(show):
    tab = show("?race=question&method=jakiro&round=3")
    at(tab, 3)
    tab.keyboard.press("e")
    expect(part(tab, "exports")).to_be_visible()
    for leaves in (lambda: None, part(tab, "speed").focus):
        tab.keyboard.press("Shift+P")
        tab.wait_for_selector("#viewer.presenting")
        leaves()
        tab.keyboard.press("Escape")
        expect(tab.locator("#viewer.presenting")).to_have_count(0)
        expect(part(tab, "exports")).to_be_hidden()


def test_for_a_talk_the_settings_close_and_every_figure_is_larger(show):
    tab = show("?race=question&method=jakiro&round=3&tab=run")
    tab.wait_for_selector("[data-figure=classes][data-drawn=yes]")
    texts = "'[data-figure=classes] .xtick text, [data-part=bars] .ytick text'"
    sizes = f"[...document.querySelectorAll({texts})].map((one) => parseFloat(getComputedStyle(one).fontSize))"  # px
    tab.wait_for_selector("[data-part=bars][data-drawn=yes]")
    assert max(tab.evaluate(sizes)) < 12
    tab.locator("[data-do=settings]").click()
    expect(tab.locator("[data-do=settings]")).to_have_attribute("aria-expanded", "true")
    part(tab, "present").click()
    expect(tab.locator(".sidebar.open")).to_have_count(0)
    tab.wait_for_function(f"Math.min(...{sizes}) > 12")
    part(tab, "present").click()
    tab.wait_for_function(f"Math.max(...{sizes}) < 12")


def test_the_tour_calls_no_round_notable_that_is_not(show):
    tab = show("?race=question&method=jakiro&round=5")
    wait_for_tree(tab)
    part(tab, "offer").click()
    said = part(tab, "tour").locator("p").first
    for lane, notable in (("jakiro", True), ("vanilla", False)):
        tab.locator(f".lane[data-method={lane}] h2").click()
        tab.wait_for_selector(f"[data-method={lane}][data-round]")
        while "notable rounds" not in said.text_content():
            part(tab, "tour").get_by_role("button", name="Next").click()
        assert said.text_content().endswith("This is one.") == notable
        part(tab, "tour").get_by_role("button", name="Back").click()


def test_in_a_frame_as_high_as_its_page_the_tour_is_beside_what_it_tells_of(show):
    """As a Space is shown in, where the bottom of the window is that of the page."""
    tab = show("?race=question", viewport={"width": 1280, "height": 4000})
    wait_for_tree(tab)
    tab.evaluate("window.parentIFrame = {size() {}, autoResize() {}}")
    part(tab, "offer").click()
    for _ in range(4):
        marked, box = (tab.locator(of).bounding_box() for of in ("#viewer .toured", "#viewer .tour"))
        assert 0 <= box["y"] - marked["y"] - marked["height"] < 40
        part(tab, "tour").get_by_role("button", name="Next").click()
    part(tab, "tour").get_by_role("button", name="Close").click()
    part(tab, "benchmarks").locator("summary").click()
    assert part(tab, "benchmarks").bounding_box()["height"] < 3000  # which would never end growing with the frame


@WIDE_AND_NARROW
def test_a_newcomer_is_offered_a_tour_that_leads_through_the_page(show):
    tab = show("?race=question&method=jakiro&round=5")
    wait_for_tree(tab)
    part(tab, "offer").click()
    expect(part(tab, "tour")).to_contain_text("The target is the language model whose text is wanted")
    stops = int(part(tab, "tour").locator("span").text_content().split()[-1])
    for stop in range(1, stops + 1):
        expect(part(tab, "tour")).to_contain_text(f"{stop} of {stops}")
        assert tab.locator("#viewer .toured").count() == 1
        part(tab, "tour").get_by_role("button", name="Done" if stop == stops else "Next").click()
    expect(part(tab, "tour")).to_be_hidden()
    assert tab.locator("#viewer .toured").count() == 0
    tab.reload()
    wait_for_tree(tab)
    expect(part(tab, "offer")).to_be_hidden()
    tab.keyboard.press("?")
    part(tab, "help").get_by_text("Tour of one minute").click()
    expect(part(tab, "tour")).to_contain_text(f"1 of {stops}")
    part(tab, "tour").get_by_role("button", name="Close").click()
    expect(part(tab, "tour")).to_be_hidden()


@WIDE_AND_NARROW
def test_the_tour_shows_what_it_tells_of(show):
    tab = show("?race=question&method=vanilla&round=3&tab=table")
    tab.wait_for_selector("[data-round='3'][data-method=vanilla]")
    part(tab, "offer").click()
    expect(tab.locator("[data-tab=tree]")).to_have_attribute("aria-selected", "true")
    at(tab, 0)  # vanilla has no notable rounds
    tour = part(tab, "tour")
    for stop in range(4):
        tour.get_by_role("button", name="Next").click()
        if stop == 2:
            expect(part(tab, "title")).to_have_text(re.compile(f"Round {REJECTING + 1} "))
    round = next(index for index, kinds in enumerate(KINDS) if kinds and index)
    at(tab, round)
    expect(tour).to_contain_text("This is one.")
    expect(part(tab, "moments").locator("span")).not_to_have_count(0)
    for name in ("Next", "Back", "Back"):
        tour.get_by_role("button", name=name).click()
    expect(tour).to_contain_text("4 of")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    at(tab, round)


def test_where_no_round_is_notable_the_tour_does_not_say_so(show):
    tab = show("?race=question")
    tab.evaluate(DROP, to_json(synthetic.vanilla_trace(RUN.tokens[:9])))
    expect(part(tab, "kind")).to_have_text("opened")
    part(tab, "offer").click()
    for _ in range(4):
        part(tab, "tour").get_by_role("button", name="Next").click()
    expect(part(tab, "tour")).to_contain_text("5 of")
    expect(part(tab, "tour")).not_to_contain_text("This is")
    expect(part(tab, "notice")).to_be_hidden()


def test_escape_ends_the_tour_and_gives_the_focus_back(show):
    tab = show("?race=question&method=jakiro&round=3")
    at(tab, 3)
    tab.locator("[data-do=help]").focus()
    tab.keyboard.press("Enter")
    part(tab, "help").get_by_text("Tour of one minute").focus()
    tab.keyboard.press("Enter")
    expect(part(tab, "tour").get_by_role("button", name="Next")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(part(tab, "tour")).to_be_hidden()
    expect(tab.locator("[data-do=help]")).to_be_focused()
    assert tab.locator("#viewer .toured").count() == 0


def test_a_key_is_for_the_lane_that_the_key_before_it_chose(show):
    """Both came within a frame: the end was that of the lane that was still drawn."""
    tab = show("?race=question&method=jakiro&round=0&motion=0")
    wait_for_tree(tab)
    tab.evaluate("""for (const key of ['1', 'End'])
      document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))""")
    tab.wait_for_selector("#viewer .lane[data-method=vanilla].chosen")
    expect(part(tab, "count")).to_have_text(re.compile(r"^round (\d+) / \1$"))


def test_another_lane_is_shown_at_the_same_time_of_the_clock(show):
    tab = show("?race=question&method=jakiro&round=7")
    at(tab, 7)
    same = tab.locator(".lane[data-method=eagle2] .text .same").first.get_attribute("data-round")
    assert same != "7"
    tab.locator(".lane[data-method=eagle2] h2 button").click()
    tab.wait_for_selector(f"[data-round='{same}'][data-method=eagle2]")
    lane = tab.locator(".lane[data-method=jakiro]")
    back = lane.locator(".text .same").first.get_attribute("data-round")
    number = lane.evaluate("(one) => [...one.parentNode.children].indexOf(one) + 1")
    tab.keyboard.press(str(number))
    at(tab, back)
    assert back == "7"  # there and back leads nowhere else
    tab.keyboard.press("ArrowRight")
    at(tab, 8)


def test_a_list_lets_go_of_the_keys_once_something_is_chosen_by_mouse(show):
    tab = show("?race=question&method=jakiro&round=0")
    at(tab, 0)
    option = part(tab, "moment").locator("option").last.get_attribute("value")
    part(tab, "moment").click()
    part(tab, "moment").select_option(option)
    tab.keyboard.press("ArrowRight")
    at(tab, 1)
    expect(part(tab, "moment")).to_have_value(option)


def test_keys_of_one_character_can_be_turned_off(show):
    """For who dictates; arrows work all the same, and the choice outlasts the visit."""
    tab = show("?race=question&method=jakiro&round=3")
    at(tab, 3)
    tab.keyboard.press("?")
    part(tab, "help").get_by_label("keys of one character").uncheck()
    tab.keyboard.press("Escape")
    for again in (False, True):
        if again:
            tab.wait_for_function("location.search.includes('round=4')")  # written at most four times a second
            tab.reload()
            at(tab, 4)
        for key in ("j", "1", "?"):
            tab.keyboard.press(key)
        tab.keyboard.press("ArrowRight")
        at(tab, 5 if again else 4)
        expect(part(tab, "help")).to_be_hidden()


def test_caps_lock_changes_no_key(show):
    tab = show("?race=question&method=jakiro&round=3&tab=tree")
    at(tab, 3)
    press = "(given) => document.body.dispatchEvent(new KeyboardEvent('keydown', {...given, bubbles: true}))"
    tab.evaluate(press, {"key": "O"})
    expect(tab.locator("[data-view=outline]")).to_be_visible()
    for key in ("N", "P", "J"):
        tab.evaluate(press, {"key": key})
    notable = [index for index, kinds in enumerate(KINDS) if kinds]
    at(tab, next(before for before, after in pairwise(notable) if after > 3) - 1)
    expect(tab.locator("#viewer.presenting")).to_have_count(0)
    tab.evaluate(press, {"key": "p", "shiftKey": True})
    tab.wait_for_selector("#viewer.presenting")


def test_a_key_that_comes_before_the_closed_help_has_lost_the_focus_counts(show):
    """The browser takes the focus out of a closed dialog with its next frame; a quick hand is quicker."""
    tab = show("?race=question&method=jakiro&round=3")
    at(tab, 3)
    tab.keyboard.press("?")
    part(tab, "help").get_by_label("keys of one character").focus()
    focused = """(help) => {
      help.close();
      const focused = document.activeElement;
      focused.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, cancelable: true}));
      return focused.type;
    }"""
    assert part(tab, "help").evaluate(focused) == "checkbox"
    at(tab, 4)


def test_a_key_that_is_held_down_walks_on_and_does_nothing_else_again(show):
    tab = show("?race=question&round=3&motion=0")
    at(tab, 3)
    held = """(key) => document.body.dispatchEvent(
      new KeyboardEvent('keydown', {key, shiftKey: key === 'P', repeat: true, bubbles: true}))"""
    for key in ("P", " ", "2", "ArrowRight"):
        tab.evaluate(held, key)
    at(tab, 4)  # of the same lane
    expect(part(tab, "play")).to_contain_text("Play")
    expect(tab.locator("#viewer.presenting")).to_have_count(0)


def test_who_wants_little_motion_is_offered_the_tour_too(show):
    tab = show("?race=question", reduced_motion="reduce")
    expect(part(tab, "offer")).to_be_visible()
    tab.goto(f"{tab.url.split('?')[0]}?race=question&motion=0")
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "offer")).to_be_hidden()
