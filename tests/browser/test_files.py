"""Races that leave the page as files and come back: the replay in one file, exports, figures, traces from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import synthetic
from playwright.sync_api import expect
from served import (
    DROP,
    HOSTILE,
    IN_CHROMIUM,
    ON_EVERY_SCREEN,
    WIDE_AND_NARROW,
    open_page,
    part,
    served,
    wait_for_tree,
    wait_until,
)

from jakiro.trace import to_json
from jakiro.traces import traces_json
from jakiro.ui import offline

pytestmark = IN_CHROMIUM
RUN = synthetic.tree_trace(6, nodes=16, seed=5)
SEE_PICTURES = """() => {
  const own = Plotly.toImage;
  Plotly.toImage = (figure, look) => { window.asked = structuredClone(figure.layout); return own(figure, look); };
}"""
DROP_BOTH = """(texts) => {
  const data = new DataTransfer();
  texts.forEach((text, at) => data.items.add(new File([text], `${at}.json`)));
  document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
}"""
END_OF_SCRIPT = "</script><script>window.hacked=1</script><!--"


def test_a_replay_works_from_a_file_and_asks_nobody(chromium, tmp_path):
    hostile = replace(RUN, pieces=RUN.pieces | dict.fromkeys(RUN.tokens[:3], END_OF_SCRIPT))
    file = tmp_path / "replay.html"
    file.write_text(offline.page([synthetic.vanilla_trace(RUN.tokens), hostile]), encoding="utf-8")
    tab, trouble = open_page(chromium, file.as_uri(), "?method=jakiro&round=2&tab=whatif", color_scheme="dark")
    expect(tab.locator("[role=tab][aria-selected=true]")).to_have_text("Tree")  # there is no model to ask
    expect(tab.locator("[role=tab]", has_text=re.compile("Compare|What if"))).to_have_count(0)
    expect(tab.locator("body")).to_have_class(re.compile("dark"))
    for scheme, dark in (("light", 0), ("dark", 1)):
        tab.emulate_media(color_scheme=scheme)
        expect(tab.locator("body.dark")).to_have_count(dark)
    wait_for_tree(tab)
    assert tab.locator(".lane").count() == 2 and tab.evaluate("window.hacked") is None
    assert END_OF_SCRIPT in tab.locator(".lane").last.text_content()
    assert "synthetic" in part(tab, "source").text_content()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("[data-round='3'][data-method=jakiro]")
    for name, figure in (("routing", "run_routing"), ("diversity", "run_diversity")):
        tab.locator(f"[data-tab={name}]").click()
        tab.wait_for_selector(f"[data-figure={figure}][data-drawn=yes]:visible")
    for hidden in ("[data-do=run]", "[data-do=settings]", ".benchmarks"):
        expect(tab.locator(f"#viewer {hidden}")).to_be_hidden()
    tab.keyboard.press("e")
    with tab.expect_download() as download:
        part(tab, "exports").locator("a").click()
    kept = json.loads(download.value.path().read_text())
    assert [one["method"] for one in kept] == ["vanilla", "jakiro"]
    tab.keyboard.press("?")
    expect(part(tab, "help")).to_be_visible()
    tab.context.close()
    assert trouble == []


@WIDE_AND_NARROW
def test_exports_of_a_race_are_one_click_away(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    names = [link.get_attribute("download") for link in part(tab, "exports").locator("a").all()]
    assert names == [
        f"question-{name}" for name in ("replay.html", "traces.json", "traces.ndjson", "metrics.json", "nodes.csv")
    ]
    for name, start in ((0, b"<!doctype html>"), (2, b'{"method"'), (4, b"lane,method,")):
        tab.keyboard.press("e")
        with tab.expect_download() as download:
            part(tab, "exports").locator("a").nth(name).click()
        assert download.value.path().read_bytes().startswith(start)


def test_the_menu_of_files_closes_with_escape_and_with_a_click_elsewhere(show):
    tab = show("?race=question")
    for close in (lambda: tab.keyboard.press("Escape"), lambda: part(tab, "count").click()):
        tab.keyboard.press("e")
        expect(part(tab, "exports")).to_be_visible()
        close()
        expect(part(tab, "exports")).to_be_hidden()
    tab.keyboard.press("e")
    for _ in range(tab.locator("[data-part=export] :is(a, button)").count() + 2):
        tab.keyboard.press("Tab")
    expect(part(tab, "exports")).to_be_hidden()  # it would lie over what has the focus
    tab.keyboard.press("e")
    tab.keyboard.press("Escape")
    summary, tip = part(tab, "export").locator("summary"), part(tab, "tip")
    expect(summary).to_be_focused()
    summary.hover()
    expect(tip).to_be_visible()
    summary.click()
    expect(part(tab, "exports")).to_be_visible()
    expect(tip).to_be_hidden()  # it would lie over the first file


def saved_figure(tab, format="svg"):
    """What is saved of the view that is open."""
    tab.keyboard.press("e")
    with tab.expect_download() as download:
        tab.locator(f"[data-do={format}]").click()
    return download.value.path().read_bytes()


def test_a_saved_figure_says_what_it_shows(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    for view, title in {"tree": "round 4", "routing": "round 4 · routing", "run": "whole run"}.items():
        tab.locator(f"[data-tab={view}]").click()
        tab.wait_for_selector(f"[data-view={view}] .plot[data-drawn=yes]")
        assert f"Jakiro · {title} · Why?" in saved_figure(tab).decode()


@ON_EVERY_SCREEN
def test_a_figure_is_saved_for_a_slide(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    for format, start in (("png", b"\x89PNG"), ("svg", b"<svg")):
        tab.keyboard.press("e")
        with tab.expect_download() as download:
            tab.locator(f"[data-do={format}]").click()
        assert download.value.suggested_filename == f"question-jakiro-round4-tree.{format}"
        content = download.value.path().read_bytes()
        assert content.startswith(start)
        if format == "png":
            assert [int.from_bytes(content[at : at + 4], "big") for at in (16, 20)] == [1920, 1080]
    tab.locator("[data-tab=table]").click()
    tab.keyboard.press("e")
    tab.locator("[data-do=png]").click()
    expect(part(tab, "notice")).to_contain_text("no figure to save")
    tab.locator("[data-tab=routing]").click()
    tab.wait_for_selector("[data-figure=routing][data-drawn=yes]:visible")
    expect(part(tab, "notice")).to_be_hidden()  # it went with the move
    tab.keyboard.press("1")  # vanilla, which has no router
    tab.wait_for_selector("[data-figure=routing]", state="hidden")
    tab.keyboard.press("e")
    tab.locator("[data-do=png]").click()
    expect(part(tab, "notice")).to_contain_text("no figure to save")


def test_a_figure_is_saved_alike_after_the_window_has_changed(show):
    """Plotly takes the height out of a layout whose width changes: the title lay over the legend."""
    tab = show("?race=question&method=jakiro&round=3&tab=routing")
    box = tab.locator("[data-figure=routing]")
    tab.wait_for_selector("[data-figure=routing][data-drawn=yes]:visible")
    tab.evaluate(SEE_PICTURES)
    saved_figure(tab)
    margin, wide = tab.evaluate("asked.margin"), box.evaluate("one => one._fullLayout.width")
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.wait_for_function(f"document.querySelector('[data-figure=routing]')._fullLayout.width < {wide}")
    saved_figure(tab)
    assert tab.evaluate("asked.margin") == margin


def test_a_figure_that_was_moved_is_saved_whole(show):
    tab = show("?race=question&method=jakiro&round=3")
    wait_for_tree(tab)
    tab.evaluate(SEE_PICTURES)
    saved_figure(tab)
    whole = tab.evaluate("asked.xaxis.range")
    box = tab.locator("[data-figure=tree] .nsewdrag").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 300, y, steps=4)
    tab.mouse.up()
    tab.wait_for_function(f"document.querySelector('[data-figure=tree]').layout.xaxis.range[0] < {whole[0] - 1}")
    saved_figure(tab)
    assert tab.evaluate("asked.xaxis.range") == whole


def test_a_large_tree_is_saved_with_all_its_labels(show):
    tab = show("?race=question&round=3")
    wait_for_tree(tab)
    content = to_json(synthetic.tree_trace(4, nodes=60, depth=3, top_k=16)).encode()
    file = {"name": "large.json", "mimeType": "application/json", "buffer": content}
    part(tab, "file").set_input_files(file)
    expect(part(tab, "kind")).to_have_text("opened")
    wait_for_tree(tab)
    texts = tab.locator("[data-figure=tree]").evaluate("one => one.full.data.flatMap(({text}) => text ?? [])")
    drawn = re.findall(rb'class="textpoint"[^>]*><rect', saved_figure(tab))
    assert len(drawn) == sum(map(bool, texts)) > 50
    picture = saved_figure(tab, "png")
    assert [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)] == [1920, 1080]


def test_a_trace_from_a_file_is_shown_as_such(show):
    tab = show("?race=question&round=3")
    wait_for_tree(tab)
    hostile = replace(RUN, pieces=RUN.pieces | dict.fromkeys([*RUN.tokens[:3], *RUN.prompt], HOSTILE))
    file = {"name": "run.json", "mimeType": "application/json", "buffer": to_json(hostile).encode()}
    part(tab, "file").set_input_files(file)
    expect(part(tab, "kind")).to_have_text("opened")
    wait_for_tree(tab)
    expect(part(tab, "prompt")).to_contain_text(HOSTILE)
    assert tab.locator(".lane").count() == 1 and tab.evaluate("window.hacked") is None
    tab.wait_for_function("location.search.includes('race=kept-')")
    tab.reload()
    tab.wait_for_selector("[data-ready=yes]")
    expect(part(tab, "kind")).to_have_text("opened")


def test_odd_words_of_a_trace_stay_where_they_belong(show):
    tab, name = show("?race=question"), "a_column_that_another_tool_writes_" * 2
    steps = [
        replace(step, tree=replace(step.tree, columns=step.tree.columns | {name: [0.5] * len(step.tree)}))
        for step in RUN.steps
    ]
    pieces = dict.fromkeys([step.bonus for step in RUN.steps], "=" * 300) | {RUN.prompt[0]: "\u202ebackwards"}
    odd = replace(RUN, steps=steps, pieces=RUN.pieces | pieces)
    part(tab, "file").set_input_files({"name": "run.json", "mimeType": "", "buffer": to_json(odd).encode()})
    expect(part(tab, "kind")).to_have_text("opened")
    values = tab.locator(".node > dl dd")
    assert min(values.evaluate_all("(all) => all.map((one) => one.clientWidth)")) > 90
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for one in (part(tab, "accepted"), tab.locator(".round > .card").first):
        assert one.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    expect(part(tab, "prompt")).to_contain_text("·202Ebackwards")
    assert "\u202e" not in tab.locator("#viewer").text_content()


def test_the_focus_stays_in_its_place_when_another_lane_is_chosen(show):
    tab = show("?race=question&method=jakiro&tab=table")
    wait_for = tab.locator("[data-view=table] tbody button")
    expect(wait_for.nth(2)).to_be_visible()
    for focused in (wait_for.nth(2), tab.locator(".node summary").last):
        tab.keyboard.press("3")
        focused.focus()
        tab.keyboard.press("2")
        tab.wait_for_selector("#viewer [data-method=eagle2].chosen")
        expect(focused).to_be_focused()


def test_a_file_can_be_opened_by_keyboard(show):
    tab = show("?race=question&round=3")
    wait_for_tree(tab)
    button = tab.get_by_role("button", name="Open a trace file")
    traces = {"Space": RUN, "Enter": synthetic.vanilla_trace(RUN.tokens)}
    files = [{"name": "a.json", "mimeType": "", "buffer": to_json(trace).encode()} for trace in traces.values()]
    # not expect_file_chooser: a second one may begin to listen too late
    tab.on("filechooser", lambda chooser: chooser.set_files(files.pop(0)))
    for key, trace in traces.items():
        tab.keyboard.press("e")
        for _ in range(part(tab, "exports").locator("a").count() + 3):  # the figure in two formats, then the file
            tab.keyboard.press("Tab")
        expect(button).to_be_focused()
        tab.keyboard.press(key)
        expect(part(tab, "play")).to_contain_text("Play")
        tab.wait_for_selector(f"#viewer [data-method={trace.method}][data-round]")
        expect(part(tab, "kind")).to_have_text("opened")


@WIDE_AND_NARROW
def test_traces_can_be_dropped_and_what_is_damaged_is_refused(show):
    tab = show("?race=question&round=3")
    wait_for_tree(tab)
    tab.evaluate(DROP, traces_json([synthetic.vanilla_trace(RUN.tokens), RUN]))
    expect(part(tab, "kind")).to_have_text("opened")
    assert tab.locator(".lane").count() == 2
    cycle = to_json(RUN).replace('"parents":[-1,0', '"parents":[-1,1', 1)
    tab.evaluate(DROP, cycle)
    expect(part(tab, "notice")).to_contain_text("a parent must come before its child")
    assert tab.locator(".lane").count() == 2
    part(tab, "races").select_option("question")
    expect(part(tab, "kind")).to_have_text("recorded")
    expect(part(tab, "notice")).to_have_text("")
    tab.evaluate(DROP, cycle)
    expect(part(tab, "notice")).to_contain_text("a parent must come before its child")
    tab.locator("#viewer [data-do=last]").click()
    expect(part(tab, "notice")).to_have_text("")


def test_a_folder_that_is_dropped_is_not_taken_for_a_server_out_of_reach(show):
    tab = show("?race=question&motion=0", script="Blob.prototype.arrayBuffer = () => Promise.reject(new Error('no'));")
    wait_for_tree(tab)
    tab.evaluate(DROP, "{}")
    expect(part(tab, "notice")).to_contain_text("could not be opened: it is a folder, or cannot be read")


def test_of_two_files_the_later_is_shown_whichever_is_read_first(show):
    tab, held = show("?race=question&round=3"), []
    wait_for_tree(tab)
    tab.route("**/races", lambda route: route.continue_() if held else held.append(route))
    tab.evaluate(DROP, traces_json([RUN]))
    wait_until(tab, lambda: held)
    tab.evaluate(DROP, traces_json([synthetic.vanilla_trace(RUN.tokens), RUN]))
    expect(tab.locator(".lane")).to_have_count(2)
    held[0].continue_()
    expect(part(tab, "notice")).to_contain_text("is in the list of races.")
    expect(tab.locator(".lane")).to_have_count(2)
    opened = [one for one in part(tab, "races").locator("option").all_text_contents() if one.startswith("opened: ")]
    part(tab, "races").select_option(label=opened[0])
    expect(tab.locator(".lane")).to_have_count(1)


def test_files_that_are_opened_together_are_one_race(show):
    tab, vanilla = show("?race=question&round=3"), synthetic.vanilla_trace(RUN.tokens)
    wait_for_tree(tab)
    tab.evaluate(DROP_BOTH, [to_json(vanilla), traces_json([RUN])])
    lanes = tab.locator(".lane")
    expect(part(tab, "kind")).to_have_text("opened")
    expect(lanes).to_have_count(2)
    expect(part(tab, "lossless")).to_contain_text("lossless: 2/2")
    texts = {"a.json": to_json(vanilla), "b.ndjson": to_json(RUN), "c.json": to_json(replace(RUN, seed=1))}
    files = [{"name": name, "mimeType": "", "buffer": text.encode()} for name, text in texts.items()]
    part(tab, "file").set_input_files(files)
    expect(lanes).to_have_count(3)
    tab.evaluate(DROP_BOTH, [to_json(vanilla), "{"])
    expect(part(tab, "notice")).to_contain_text("0.json, 1.json could not be opened")
    expect(lanes).to_have_count(3)


def test_a_file_can_be_opened_where_there_is_nothing_to_show(chromium, tmp_path):
    with served(tmp_path) as address:
        tab, trouble = open_page(chromium, address)
        expect(part(tab, "export")).to_be_hidden()
        with tab.expect_file_chooser() as chooser:
            part(tab, "empty").get_by_role("button", name="Open a trace file").click()
        chooser.value.set_files({"name": "a.json", "mimeType": "", "buffer": to_json(RUN).encode()})
        expect(part(tab, "kind")).to_have_text("opened")
        expect(part(tab, "empty")).to_be_hidden()
        tab.context.close()
    assert trouble == []


def test_many_lanes_take_several_rows_and_each_looks_like_its_method(show):
    tab, vanilla = (
        show("?race=question&round=3", viewport={"width": 900, "height": 900}),
        synthetic.vanilla_trace(RUN.tokens),
    )
    runs = [replace(one, seed=seed) for seed in range(4) for one in (vanilla, RUN)]
    tab.evaluate(DROP, traces_json(runs))
    expect(tab.locator(".lane")).to_have_count(8)
    boxes = [lane.bounding_box() for lane in tab.locator(".lane").all()]
    assert min(box["width"] for box in boxes) >= 200 and len({box["y"] for box in boxes}) == 2
    drawn = "(one) => getComputedStyle(one).textDecorationLine"
    own = [lane.locator(".t2").first.evaluate(drawn) for lane in tab.locator(".lane").all()]
    assert own == ["none", "underline"] * 4
    tab.evaluate(DROP, traces_json([vanilla, RUN]))
    expect(tab.locator(".lane")).to_have_count(2)
    first, second = (lane.bounding_box() for lane in tab.locator(".lane").all())
    assert first["y"] == second["y"] and first["width"] + second["width"] > 800  # few fill the row


def test_the_bars_of_a_row_are_level_where_a_name_takes_two_lines(show):
    tab = show("?race=question&round=3", viewport={"width": 1320, "height": 900})
    names = ["vanilla", "prompt_lookup", "token_recycling", "draft_model", "eagle2", "jakiro"]
    tab.evaluate(DROP, traces_json([replace(RUN, method=name) for name in names]))
    expect(tab.locator(".lane")).to_have_count(6)
    edges = "(all) => all.map((one) => one.getBoundingClientRect().top)"
    for name in (".numbers", ".bar", ".text"):
        assert len({round(top) for top in tab.locator(f".lane {name}").evaluate_all(edges)}) == 1, name


def test_no_speed_is_held_against_a_vanilla_of_another_prompt(show):
    tab, vanilla = show("?race=question&round=3"), synthetic.vanilla_trace(RUN.tokens)
    wait_for_tree(tab)
    lanes, last = tab.locator(".lane"), tab.locator(".lane").last
    for one, held in ((vanilla, True), (replace(vanilla, prompt=[*vanilla.prompt, 7]), False)):
        tab.evaluate(DROP, traces_json([one, RUN]))
        expect(lanes).to_have_count(2)  # the recorded race has three
        (expect(last).to_contain_text if held else expect(last).not_to_contain_text)("×")


def test_the_header_says_what_is_true_of_the_lane_that_is_chosen(show):
    tab, vanilla = show("?race=question&round=3"), synthetic.vanilla_trace(RUN.tokens)
    pieces = vanilla.pieces | {7: "other prompt"}
    tab.evaluate(DROP, traces_json([replace(vanilla, device="another", prompt=[7], pieces=pieces), RUN]))
    expect(tab.locator(".lane")).to_have_count(2)
    expect(part(tab, "source")).to_contain_text("· cpu ·")
    expect(part(tab, "prompt")).not_to_have_text("other prompt")
    tab.keyboard.press("1")
    expect(part(tab, "source")).to_contain_text("· another ·")
    expect(part(tab, "prompt")).to_have_text("other prompt")


def test_a_single_run_has_no_tick(show):
    tab = show("?race=question&round=3")
    tab.evaluate(DROP, traces_json([RUN]))
    expect(part(tab, "lossless")).to_have_text("one run, nothing to compare")
    expect(part(tab, "lossless")).to_have_class("chip")


def test_the_tour_of_a_replay_leads_to_nothing_that_is_not_there(chromium, tmp_path):
    file = tmp_path / "replay.html"
    file.write_text(offline.page([synthetic.vanilla_trace(RUN.tokens), RUN]), encoding="utf-8")
    tab, trouble = open_page(chromium, file.as_uri(), "?method=jakiro&round=2")
    part(tab, "offer").click()
    while part(tab, "tour").is_visible():
        expect(tab.locator("#viewer .toured")).to_be_visible()
        expect(part(tab, "tour")).not_to_contain_text(re.compile("live|What if"))
        part(tab, "tour").get_by_role("button", name=re.compile("Next|Done")).click()
    tab.context.close()
    assert trouble == []


def test_the_address_of_what_the_server_may_forget_says_so(show):
    tab = show("?race=question&round=3")
    before = part(tab, "lanes").bounding_box()
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_contain_text("address of this view")
    expect(part(tab, "notice")).not_to_contain_text("Export")
    assert part(tab, "lanes").bounding_box() == before  # nothing moves for a line that soon goes
    tab.evaluate(DROP, traces_json([RUN]))
    expect(part(tab, "kind")).to_have_text("opened")
    tab.keyboard.press("s")
    expect(part(tab, "notice")).to_contain_text("Export keeps it for good")
