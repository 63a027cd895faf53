"""The page in a real browser: what it shows, that it follows the address, that nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import synthetic
from playwright.sync_api import expect
from served import (
    DROP,
    HOSTILE,
    IN_CHROMIUM,
    ON_EVERY_SCREEN,
    SCREENS,
    WIDE_AND_NARROW,
    open_page,
    part,
    served,
    wait_for_timeline,
    wait_for_tree,
    with_facts,
)

from jakiro.assets import ASSETS, BENCHMARKS
from jakiro.measuring.findings import summary
from jakiro.methods import METHODS
from jakiro.trace import to_json
from jakiro.traces import traces_json
from jakiro.ui import recorded
from jakiro.ui.figures.labels import visible
from jakiro.ui.modules import Modules

pytestmark = IN_CHROMIUM
SCROLLED = """(by) => new Promise((done) => {
  addEventListener('scroll', () => setTimeout(done, 100), {once: true});
  scrollBy(0, by);
})"""
COLOURS = """() => {
  const plot = document.querySelector('[data-figure=tree]');
  return [getComputedStyle(document.querySelector('.lane')).backgroundColor, plot.layout.font.color];
}"""
COUNT_FRAMES = """{
  const frame = requestAnimationFrame;
  window.asked = 0;
  window.requestAnimationFrame = (draw) => { asked += 1; return frame(draw); };
}"""
AT_REST = """async () => {
  // whether hardly a frame is asked for any more in a second: at last in the twentieth
  for (let i = 0; i < 20; i += 1) {
    const before = asked;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (asked < before + 4) return true;
  }
  return false;
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


def test_a_race_comes_with_its_round_and_not_lanes_first(show):
    """Lanes over a card that is still empty are a frame that jumps."""
    script = """new MutationObserver((_, watching) => {
      if (!document.querySelector('#viewer .lane')) return;
      window.titled = document.querySelector('#viewer [data-part=title]').textContent;
      watching.disconnect();
    }).observe(document, {childList: true, subtree: true});"""
    assert show("?motion=0", script=script).evaluate("window.titled").endswith(" · Jakiro")


def test_the_narrowest_window_has_room_for_the_small_print_of_the_timeline(show):
    """320 px is a window of 1280 at 400 %. A legend in two lines lies over the bars, a long caption over the axis."""
    tab = show("?race=question&method=jakiro&motion=0", viewport={"width": 320, "height": 740})
    expect(part(tab, "bars")).to_have_attribute("data-drawn", "yes")
    top = "(all) => all.map((one) => one.getBoundingClientRect().top)"
    tops = part(tab, "bars").locator(".legend2 text").evaluate_all(top)
    assert len(tops) == 3 and len(set(tops)) == 1
    caption, axis = part(tab, "bars").locator(".annotation-text"), part(tab, "bars").locator(".y2tick text").last
    assert caption.bounding_box()["x"] > axis.evaluate("(one) => one.getBoundingClientRect().right")


def test_processors_go_by_their_short_names(show):
    facts = with_facts(about={"device": "Intel(R) Xeon(R) Processor @ 2.80GHz"})
    tab = show("?race=question", routes={"**/races/question.json": facts})
    wait_for_tree(tab)
    expect(part(tab, "source")).to_contain_text("· Intel Xeon @ 2.80GHz ·")
    assert "Intel(R) Xeon(R) Processor @" in part(tab, "source").get_attribute("data-help")


def test_a_page_at_rest_asks_for_hardly_a_frame(show):
    """Gradio's loading sign did when it had gone, for a tenth of a core."""
    tab = show("?race=question&motion=0", script=COUNT_FRAMES)
    wait_for_tree(tab)
    assert tab.evaluate(AT_REST)


def test_every_view_is_in_the_address(show):
    tab = show("?race=question&method=eagle2&round=3&node=2&tab=table&clock=passes")
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    assert tab.locator("tr.now").get_attribute("data-node") == "2"
    assert part(tab, "node").get_attribute("data-node") == "2"
    assert part(tab, "clock").input_value() == "passes"
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='4'][data-method=eagle2]")
    tab.wait_for_function("new URLSearchParams(location.search).get('round') === '4'")


def test_an_address_that_does_not_fit_shows_what_there_is(show):
    tab = show("?race=question&method=nobody&round=9999&node=77777&tab=nonsense&clock=lunar")
    tab.wait_for_selector("[data-round='11'][data-method=jakiro]")
    assert tab.locator("[role=tab][aria-selected=true]").text_content() == "Tree"


def test_an_address_of_odd_words_is_answered_in_words(show):
    tab = show("?race=../../etc/passwd&moment=constructor")
    expect(part(tab, "notice")).to_have_text("There is no race “../../etc/passwd” here.")
    expect(part(tab, "moment")).to_have_value("")


def test_back_leads_to_the_race_before(show):
    tab = show("?race=question&method=eagle2&round=3&motion=0")
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    part(tab, "races").select_option("hostile")
    expect(part(tab, "prompt")).to_have_text(HOSTILE)
    tab.wait_for_function("new URLSearchParams(location.search).get('race') === 'hostile'")
    tab.go_back()
    tab.wait_for_selector("[data-round='3'][data-method=eagle2]")
    expect(part(tab, "prompt")).to_have_text("Why?")
    tab.go_forward()
    expect(part(tab, "prompt")).to_have_text(HOSTILE)


def test_the_tabs_of_a_round_are_walked_by_keys(show):
    tab = show("?race=question&round=5&tab=tree")
    tab.locator("[data-tab=tree]").focus()
    for key, view in (("ArrowRight", "outline"), ("ArrowLeft", "tree"), ("ArrowLeft", "whatif"), ("Home", "tree")):
        tab.keyboard.press(key)
        expect(tab.locator(f"[data-tab={view}]")).to_be_focused()
        expect(tab.locator(f"[data-tab={view}]")).to_have_attribute("aria-selected", "true")
        assert tab.locator("[role=tab][tabindex='0']").count() == 1
    tab.wait_for_selector("[data-round='5'][data-method]")  # the round stays


def test_closed_settings_are_not_on_the_way_of_tab(show):
    tab = show("?race=question")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.keyboard.press("Tab")
    expect(tab.locator("#viewer :focus")).to_have_text("To the round")
    tab.keyboard.press("Enter")
    expect(part(tab, "title")).to_be_focused()
    expect(part(tab, "title")).to_be_in_viewport()
    tab.locator("[data-do=settings]").click()
    expect(tab.locator("#settings input[type=number]").first).to_be_visible()


@WIDE_AND_NARROW
def test_the_settings_are_opened_and_closed_by_keyboard(show):
    tab = show("?race=question")
    tab.wait_for_selector("#viewer [data-models=ready]")
    button = tab.locator("[data-do=settings]")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.focus()
    for key in ("Enter", "Space"):
        tab.keyboard.press(key)
        expect(button).to_have_attribute("aria-expanded", "true")
        expect(tab.get_by_role("button", name="Take those of the race shown")).to_be_focused()  # the first control
        tab.keyboard.press("Escape")
        expect(button).to_have_attribute("aria-expanded", "false")
        expect(button).to_be_focused()
    button.blur()
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(tab.locator("#settings :focus")).to_have_count(0)  # by mouse: keys go on leading from round to round


@WIDE_AND_NARROW
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


def test_text_is_selected_and_a_legend_clicked_without_a_move(show):
    tab = show("?race=question&method=jakiro&round=5&node=1&motion=0")
    wait_for_tree(tab)
    first, last = (tab.locator(".lane[data-method=vanilla] .text span").nth(at).bounding_box() for at in (1, 3))
    tab.mouse.move(first["x"] + 1, first["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(last["x"] + last["width"] - 1, last["y"] + 5, steps=5)
    tab.mouse.up()
    assert tab.evaluate("getSelection().toString().length > 1")
    for name in ("legend", "legend2"):
        tab.locator(f"[data-part=bars] .{name}toggle").last.click()
        tab.wait_for_timeout(400)  # plotly waits whether the click is a double one
    assert tab.locator("[data-round='5'][data-method=jakiro]").count() == 1
    assert part(tab, "node").get_attribute("data-node") == "1"


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


@WIDE_AND_NARROW
def test_tabs_show_their_figures(show):
    tab = show("?race=question&method=jakiro&round=4")
    figures = {"routing": "run_routing", "diversity": "run_diversity", "run": "classes", "tree": "tree"}
    for name, figure in figures.items():
        tab.locator(f"[data-tab={name}]").click()
        tab.wait_for_selector(f"[data-figure={figure}][data-drawn=yes]:visible")
        expect(tab.locator(f"[data-figure={figure}] .main-svg").first).to_have_attribute("aria-hidden", "true")
    # a clip path by its full address is lost when the address changes, and what it clips with it
    assert tab.locator("[clip-path]").count() > 0
    assert tab.locator("[clip-path*=http]").count() == 0
    tab.goto(tab.url.split("?")[0] + "?race=question&method=eagle2&tab=routing")
    tab.wait_for_selector("[data-view=routing] .none:visible")
    tab.locator(".lane[data-method=vanilla] h2 button").click()
    expect(part(tab, "why")).to_contain_text("This method drafts nothing")
    expect(tab.locator("[data-view=routing] .none")).to_be_hidden()  # it says so already


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
    said = " ".join(summary(report))
    tab = show("?race=question")
    tab.keyboard.press("?")
    expect(part(tab, "help-text")).to_contain_text("An accepted token that one expert alone proposed.")
    expect(part(tab, "help-text")).not_to_contain_text("τ:")  # it stands beside
    expect(part(tab, "findings")).to_contain_text(said)
    part(tab, "findings").locator("button").first.click()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=decoupling-cpu]")
    assert not part(tab, "help").is_visible()
    assert part(tab, "report-summary").text_content() == said
    assert part(tab, "benchmarks").bounding_box()["y"] < 100
    tab.select_option("[data-part=report]", "cpu")
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=cpu]")
    assert not part(tab, "report-summary").is_visible()


def test_what_experiments_found_is_led_to_from_a_talk_and_not_while_a_race_runs(show):
    tab = show("?race=question&present=1")
    tab.wait_for_selector("#viewer.presenting")
    stage, button = part(tab, "stage"), part(tab, "findings").locator("button").first
    stage.evaluate("(one) => one.classList.add('running')")
    tab.keyboard.press("?")
    button.click()
    expect(part(tab, "findings").locator(".none").first).to_contain_text("below a race that is over")
    expect(part(tab, "help")).to_be_visible()
    stage.evaluate("(one) => one.classList.remove('running')")
    button.click()
    expect(part(tab, "help")).to_be_hidden()
    tab.wait_for_selector("[data-part=benchmarks][data-drawn=decoupling-cpu]:visible")
    expect(tab.locator("#viewer.presenting")).to_have_count(0)
    assert part(tab, "benchmarks").bounding_box()["y"] < 100


def test_the_table_is_for_keys_too(show):
    tab = show("?race=question&method=jakiro&round=3&tab=table")
    tab.locator("[data-view=table] [role=region]").focus()
    tab.keyboard.press("ArrowRight")  # scrolls
    tab.locator("[data-view=table] tbody th button").nth(2).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("[data-part=node][data-node='2']")
    tab.locator("[data-view=table] [role=region]").evaluate("(box) => box.scrollTo(400, 0)")
    tab.locator("[data-view=table] tbody th button").nth(2).click(trial=True)  # it stays in sight
    expect(tab.locator("[data-view=table] tr[aria-current=true]")).to_have_attribute("data-node", "2")
    assert "round=3" in tab.evaluate("location.search")


def test_an_address_names_the_tab_where_another_screen_would_open_another(show):
    tab = show("?race=question&tab=outline")
    tab.wait_for_function("location.search.includes('method=')")
    assert "tab=outline" in tab.evaluate("location.search")


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

    controls = "(of) => getComputedStyle(document.querySelector(of)).colorScheme"
    assert [tab.evaluate(controls, of) for of in ("html", "#viewer select")] == ["dark", "dark"]
    dark = tab.evaluate(COLOURS)
    tab.locator("[data-do=theme]").click()
    changed = """(before) => document.querySelector('[data-figure=tree]').layout.font.color !== before
      && document.getAnimations().every((one) => !(one instanceof CSSTransition))"""
    tab.wait_for_function(changed, arg=dark[1])
    light = tab.evaluate(COLOURS)
    assert light[0] != dark[0] and tab.evaluate(controls, "html") == "light"
    tab.locator("[data-do=theme]").click()
    tab.wait_for_function(changed, arg=light[1])
    assert tab.evaluate(COLOURS) == dark


def test_the_address_goes_with_the_theme_that_is_shown(show):
    tab = show("?race=question&theme=dark")
    tab.wait_for_selector("body.dark")
    tab.locator("[data-do=theme]").click()
    tab.wait_for_selector("body:not(.dark)")
    tab.locator("[data-do=share]").click()
    expect(part(tab, "notice")).to_contain_text("theme=light")
    tab.wait_for_function("location.search.includes('theme=light') && location.search.includes('method=')")
    part(tab, "races").select_option("hostile")
    tab.wait_for_function("location.search.includes('race=hostile')")
    tab.locator("[data-do=theme]").click()
    tab.wait_for_function("location.search.includes('theme=dark')")
    tab.go_back()
    tab.wait_for_function("location.search.includes('race=question') && location.search.includes('theme=dark')")


def test_what_a_host_puts_into_the_address_is_not_shared(show):
    """A private Space shows the page in a frame, whose address has a token that opens it."""
    tab = show("?race=question&__theme=dark&__sign=secret")
    tab.locator("[data-do=share]").click()
    expect(part(tab, "notice")).to_contain_text("race=question")
    assert "__" not in part(tab, "notice").text_content() and "__sign=secret" in tab.url


def test_a_theme_that_was_chosen_outlasts_a_change_of_the_systems(show):
    tab = show("?race=question", color_scheme="dark")
    tab.wait_for_selector("body.dark")
    tab.locator("[data-do=theme]").click()
    for scheme in ("light", "dark", "light"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_timeout(200)
        assert tab.locator("body.dark").count() == 0
    tab.evaluate("localStorage.clear()")  # without a choice it is the system's
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_selector("body.dark")


def test_a_narrow_screen_begins_with_the_outline(show):
    tab = show("?race=question", **SCREENS["narrow"])
    tab.wait_for_selector("[data-view=outline] [aria-current=true]")


def test_a_definition_describes_what_it_is_of(show):
    tab = show("?race=question")
    number = tab.locator(".lane .numbers [data-help]").first
    number.focus()
    described = tab.locator(f"#{number.get_attribute('aria-describedby')}")
    expect(described).to_have_text(number.get_attribute("data-help"))
    number.blur()
    assert number.get_attribute("aria-describedby") is None
    clock = part(tab, "clock")  # the definition is of its label
    clock.focus()
    described = tab.locator(f"#{clock.get_attribute('aria-describedby')}")
    expect(described).to_contain_text("What the replay and the bars of the lanes go by")
    clock.blur()
    assert clock.get_attribute("aria-describedby") is None


def test_a_definition_stays_where_the_page_scrolls_to_what_has_the_keyboard(show):
    tab = show("?race=question&method=jakiro&round=3", viewport={"width": 390, "height": 500})
    wait_for_tree(tab)
    tab.mouse.move(200, 250)
    tab.keyboard.press("Tab")
    term, tip = part(tab, "node").locator("[data-help]:visible").last, part(tab, "tip")
    term.focus()
    tab.wait_for_function("scrollY > 0")
    for by in (-20, 40):
        tab.evaluate(SCROLLED, by)
        expect(tip).to_have_text(term.get_attribute("data-help"))
        expect(tip).to_be_visible()
        above, below = sorted((tip.bounding_box(), term.bounding_box()), key=lambda box: box["y"])
        assert 0 <= below["y"] - above["y"] - above["height"] < 20


def test_a_button_of_signs_says_what_it_does_when_it_is_pointed_at(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    signs = tab.locator("#viewer button:not(.modebar-btn):visible").filter(has_not_text=re.compile(r"[A-Za-z0-9]"))
    assert signs.count() > 8
    for button in signs.all():
        said = button.get_attribute("data-help")
        assert said, button.get_attribute("aria-label")
        button.hover()
        expect(part(tab, "tip")).to_have_text(said)


def test_a_mouse_that_moves_after_a_key_is_listened_to_at_once(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    number, tip = tab.locator(".lane .numbers [data-help]").first, part(tab, "tip")
    tab.mouse.move(1, 1)
    tab.keyboard.press("ArrowRight")
    number.hover()  # one move, onto it
    expect(tip).to_have_text(number.get_attribute("data-help"))


def test_a_definition_goes_with_what_it_is_of(show):
    tab = show("?race=question")
    number, tip = tab.locator(".lane .numbers [data-help]").first, part(tab, "tip")
    for gone in ("(one) => one.closest('.lane').remove()", "(one) => { one.hidden = true; }"):
        number.focus()
        expect(tip).to_be_visible()
        number.evaluate(gone)
        expect(tip).to_be_hidden()


def test_a_run_of_one_token_says_so_and_leaves_the_views_whole(chromium, tmp_path):
    run = synthetic.tree_trace(3, nodes=8)
    recorded.save(tmp_path, "long", "Long", "Why?", [run])
    recorded.save(tmp_path, "short", "Short", "Why?", [synthetic.vanilla_trace(run.tokens[:1])])
    recorded.save(tmp_path, "stopped", "Stopped", "Why?", [synthetic.vanilla_trace(run.tokens[:1], stop="stopped")])
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address, "?race=long")
        wait_for_tree(tab)
        part(tab, "races").select_option("short")
        note = tab.locator("[data-part=views] > .none")
        expect(note).to_contain_text("ended with its first token")
        for view in ("table", "compare", "tree"):
            tab.locator(f"[data-tab={view}]").click()
            expect(note).to_be_visible()
        tab.locator("[data-do=help]").click()
        part(tab, "help").locator("[data-do=tour]").click()
        for stop in range(2, 7):
            part(tab, "tour").get_by_role("button", name="Next").click()
            expect(part(tab, "tour")).to_contain_text(f"{stop} of 8")
        part(tab, "tour").get_by_role("button", name="Close").click()
        part(tab, "races").select_option("stopped")
        expect(note).to_contain_text("was stopped after its first token")
        part(tab, "races").select_option("long")
        wait_for_tree(tab)
        expect(note).to_be_hidden()
        tab.locator("[data-tab=table]").click()
        expect(tab.locator("[data-view=table] tbody tr").nth(1)).to_be_visible()
        tab.locator("[data-tab=compare]").click()
        expect(tab.locator("[data-view=compare] .primary")).to_be_disabled()
        expect(tab.locator("[data-view=compare] .none")).to_contain_text("This race has one lane")
        tab.context.close()
    assert trouble == []


def test_a_token_looks_alike_in_lists_and_in_figures(show):
    chars = [
        *" \n\r\t",
        *"aé语🙂ب",
        *map(chr, (0, 0x7F, 0xA0, 0xAD, 0x200B, 0x202E, 0x2028, 0x3000, 0xFEFF, 0xE000, 0xE0001)),
        "",
    ]
    path = f"{Modules(ASSETS / 'viewer').path}/format.js"
    script = """async ([path, chars]) => {
      const {token} = await import(new URL(path, document.baseURI));
      return chars.map((char) => token({pieces: {1: char}}, 1));
    }"""
    assert show("?race=question").evaluate(script, [path, chars]) == [visible(char) for char in chars]


def test_a_token_reorders_no_others_in_its_lane(show):
    run = synthetic.tree_trace(6, nodes=16)
    odd = replace(run, pieces=run.pieces | {run.tokens[1]: " a\u202eb\u2066", run.tokens[2]: " ب"})
    tab = show("?race=question&motion=0")
    tab.evaluate(DROP, to_json(odd))
    expect(part(tab, "kind")).to_have_text("opened")
    tokens = tab.locator(".lane .text span")
    assert tokens.nth(1).text_content() == " a·202Eb·2066" and tokens.nth(2).text_content() == " ب"


def test_a_list_that_is_open_stays_open(show):
    tab = show("?race=question&method=jakiro&round=3&tab=compare&motion=0")
    option = tab.locator("[data-view=compare] option").first
    expect(option).to_be_attached()
    first = option.element_handle()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='4'][data-method=jakiro]")
    assert first.evaluate("(one) => one.isConnected")


def test_text_from_right_to_left_is_laid_out_so(show):
    tab = show("?race=question")
    for text in (part(tab, "prompt"), tab.locator(".lane .text").first):
        expect(text).to_have_attribute("dir", "auto")


def test_a_long_prompt_is_read_in_full_where_it_is_focused(show):
    tab = show("?race=question")
    wait_for_timeline(tab)  # until then the lane is shown anew, with its own prompt
    prompt = part(tab, "prompt")
    prompt.evaluate("(element) => { element.textContent = 'word '.repeat(5000); }")
    height = prompt.bounding_box()["height"]
    prompt.hover()
    assert prompt.bounding_box()["height"] == height  # else the page is pushed away below the pointer
    prompt.focus()
    assert height < prompt.bounding_box()["height"] <= 0.4 * tab.viewport_size["height"]


def test_a_lane_says_what_its_method_does(show):
    tab = show("?race=question")
    for name in ("vanilla", "eagle2", "jakiro"):
        title = tab.locator(f".lane[data-method={name}] h2 button")
        expect(title).to_have_attribute("data-help", METHODS[name].summary)


def test_a_lane_shows_that_its_text_goes_on(show):
    text = part(show("?race=question"), "lanes").locator(".text").first
    assert text.evaluate("(one) => getComputedStyle(one).backgroundImage").count("linear-gradient") == 4


def test_a_stopped_lane_is_not_shown_as_one_that_came_to_its_end(chromium, tmp_path):
    run = synthetic.tree_trace(12, nodes=8)
    half = run.tokens[: len(run.tokens) // 2]
    recorded.save(tmp_path, "a", "A", "Why?", [run, synthetic.vanilla_trace(half, stop="stopped")])
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address, "?race=a")
        wait_for_tree(tab)
        bars = tab.locator(".lane .bar i").evaluate_all("(all) => all.map((one) => parseFloat(one.style.width))")
        tab.close()
    assert not trouble and bars[0] == 100 and bars[1] <= 50


def test_a_side_of_a_what_if_was_not_stopped_by_anybody(show):
    for branch, said in (("", 1), ("what if", 0)):
        facts = with_facts(lane={"stop": "stopped", "branch": branch})
        tab = show("?race=question", routes={"**/races/question.json": facts})
        expect(part(tab, "lanes").locator(".numbers", has_text="· stopped")).to_have_count(said)


def test_numbers_of_the_round_have_definitions(show):
    tab = show("?race=question&method=jakiro&round=3")
    expect(part(tab, "nodes")).to_have_text("23 drafted")  # of 24 nodes
    for name in ("nodes", "accepted", "count"):
        part(tab, name).focus()
        expect(tab.locator("#viewer .tip")).to_have_text(part(tab, name).get_attribute("data-help"))
    spent = r"This one: draft \d+\.\d\d ms, verify \d+\.\d\d ms, overhead \d+\.\d\d ms\."
    expect(tab.locator("#viewer .tip")).to_have_text(re.compile(rf"A round is .* {spent}$"))


def test_the_tokens_of_an_opened_trace_are_no_prompt_to_run(show):
    """The chat template is among them, and in a file each lane may have been asked something else."""
    tab = show("?race=question&motion=0")
    tab.wait_for_selector("#viewer [data-models=ready]")
    tab.evaluate(DROP, traces_json([synthetic.tree_trace(6, nodes=16)]))
    expect(part(tab, "kind")).to_have_text("opened")
    assert part(tab, "prompt").text_content()
    tab.locator("[data-do=run]").click()
    expect(part(tab, "notice")).to_contain_text("the prompt is empty; write a question")
    expect(tab.locator("#prompt textarea")).to_have_value("")
    expect(part(tab, "kind")).to_have_text("opened")
    expect(tab.locator("[data-do=run]")).to_be_enabled()


@pytest.mark.parametrize("height", [800, 900])
def test_a_laptops_first_screen_shows_the_tree(show, height):
    tab = show("?race=question&method=jakiro&round=4", viewport={"width": 1440, "height": height})
    wait_for_tree(tab)
    nodes = tab.locator("[data-figure=tree] .scatterlayer .point")
    on = nodes.evaluate_all("(all) => all.filter((one) => one.getBoundingClientRect().bottom < innerHeight).length")
    assert on == nodes.count() > 20
