"""The page: Gradio for the prompt, the settings and the model's queue; one HTML component for everything to look at.

`build` makes the page, `options` what `launch` needs besides. Layout and wiring are apart: `_layout` places components,
`_wire` connects them. What the viewer shows is in assets/viewer; it fetches races from site.py and gets a running race
as lines of JSON (stream.py) in its value.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import gradio as gr
from gradio.events import Dependency
from starlette.middleware import Middleware

from jakiro.assets import ASSETS, BENCHMARKS
from jakiro.methods import METHODS
from jakiro.traces import traces_json
from jakiro.ui import panel, questions, site
from jakiro.ui.about import method_summaries
from jakiro.ui.early import THERE, Early
from jakiro.ui.export import EXPORTS
from jakiro.ui.figures import theme
from jakiro.ui.guard import REFUSALS, guard
from jakiro.ui.library import Library
from jakiro.ui.live import branches, comparisons, examinations, live_races
from jakiro.ui.models import Models, RequestError
from jakiro.ui.modules import Modules
from jakiro.ui.panel import Panel
from jakiro.ui.questions import failure, refused, tell_run, when_over
from jakiro.ui.small import Small
from jakiro.ui.stream import line
from jakiro.ui.whatif import descriptions

LOG = logging.getLogger(__name__)
WAITING = 16  # runs that may wait in the queue
POLL = 0.05  # seconds between Gradio's looks into its queue; it would look 1,000 times a second, at the race's cost
SANS, MONO = ([name.strip("'") for name in fonts.split(", ")] for fonts in (theme.SANS, theme.MONO))

# Names of custom events must stand in this text, quoted: gr.HTML looks for them here. `send` triggers them.
ON_LOAD = """
@there
// 'run', 'stop', 'ready', 'branch', 'compare', 'doctor', 'take'
const given = {...JSON.parse(props.facts), get value() { return props.value; }};
import(new URL('@viewer/main.js', document.baseURI))
  .then((viewer) => viewer.mount({element, props: given, watch, send: trigger}))
  .catch((error) => {
    element.querySelector('[data-part=notice]').textContent = `The page cannot start; reload it (${error.message}).`;
    throw error;
  });
"""


def build(models: Models, library: Library, gpu: Callable[[Callable], Callable] | None = None) -> gr.Blocks:
    """The page, not launched. `gpu` decorates what uses the model, where a host asks for that."""
    live = live_races(models, library, gpu)
    examples = json.loads((ASSETS / "prompts.json").read_text(encoding="utf-8"))
    examine = examinations(models, [one["prompt"] for one in examples], gpu)
    with gr.Blocks(title="Jakiro Debugger", analytics_enabled=False, fill_width=True) as demo:
        viewer, prompt, settings = _layout(library, examples)
        running = _wire(viewer, prompt, settings, models, live)
        panel.wire(viewer, settings, models, library)
        asked = questions.wire(viewer, branches(models, library, gpu), comparisons(models, library, gpu), examine)
        viewer.stop(None, cancels=[running, *asked], api_visibility="private")
        _api(library, live)
    demo.queue(max_size=WAITING, api_open=False)  # open, it would let anybody past it
    demo._queue.sleep_when_free = demo._queue.progress_update_sleep_when_free = POLL
    guard(demo)
    return demo


def options(models: Models, library: Library) -> dict[str, Any]:
    """Arguments of `launch` that belong to the page: its look and what it fetches. No host, no port, nothing shared."""
    modules = Modules(ASSETS / "viewer")
    head = "".join(f'<link rel="modulepreload" href="{address}">' for address in modules.addresses())
    # run once the first screen is there: it holds the browser up for some tenths of a second
    head += f'<link rel="preload" as="script" id="plotly-js" href="{site.PLOTLY}">'
    for race in library.opening():
        what = f"{{rel: 'preload', as: 'fetch', crossOrigin: 'anonymous', href: 'races/{race}.json'}}"
        link = f"document.head.append(Object.assign(document.createElement('link'), {what}))"
        head += f"<script>if (!new URLSearchParams(location.search).get('race')) {link};</script>"
    return {
        "theme": _theme(),
        "css_paths": [ASSETS / "style.css"],
        "head": head,
        "app_kwargs": {
            "routes": site.routes(modules, library, models, BENCHMARKS),
            "middleware": [Middleware(Early), Middleware(Small)],
            "exception_handlers": REFUSALS,
        },
        "footer_links": ["api"],
        "run_history": False,
        "ssr_mode": False,
        "enable_monitoring": False,  # else anybody could ask how often what was run, and each who asks is printed
        "quiet": True,
        "max_file_size": 1,  # bytes: nothing here is uploaded through Gradio (site.py takes traces)
        "state_session_capacity": 100,  # visits of which Gradio keeps a copy of all components: 280 KB each
        "_frontend": False,  # else a machine too busy to answer within 3 s is taken for one without a localhost
    }


def _theme() -> gr.themes.Base:
    """Gradio's plainest, its small print dark enough to be read."""
    base = gr.themes.Base(font=SANS, font_mono=MONO, primary_hue="emerald", neutral_hue="gray", radius_size="md")
    return base.set(body_text_color_subdued="*neutral_500")


def _layout(library: Library, examples: list[dict[str, str]]) -> tuple[gr.HTML, gr.Textbox, Panel]:
    facts = {
        "races": [asdict(race) for race in library.recorded.values()],
        "exports": list(EXPORTS),
        "methods": descriptions(),
        "summaries": method_summaries(),
    }
    with gr.Sidebar(open=False, label="Settings", elem_id="settings"):
        settings = panel.panel()
    with gr.HTML(
        html_template=(ASSETS / "page.html").read_text(encoding="utf-8"),
        js_on_load=ON_LOAD.replace("@there", THERE).replace("@viewer", Modules(ASSETS / "viewer").path),
        value="",
        elem_id="viewer",
        apply_default_css=False,
        facts=json.dumps(facts),  # one text: with every change of `value` Gradio copies each number and text anew
    ) as viewer:
        prompt = gr.Textbox(
            label="Prompt",
            placeholder="Write a prompt, or take an example. Enter runs it live.",
            lines=1,
            max_lines=6,
            elem_id="prompt",
            container=False,
        )
        gr.Examples(
            [[one["prompt"]] for one in examples],
            inputs=[prompt],
            label="Examples",
            example_labels=[one["label"] for one in examples],
            examples_per_page=len(examples),
            elem_id="examples",
            api_visibility="private",
        )
    return viewer, prompt, settings


def _wire(
    viewer: gr.HTML, prompt: gr.Textbox, settings: Panel, models: Models, live: Callable[..., Iterator[str]]
) -> Dependency:
    def run(prompt, methods, length, temperature, top_p, seed, *values) -> Iterator[str]:
        ordered = [name for name in METHODS if name in (methods or [])]
        changes = settings.controls.read(values)
        id, text = Library.new_id(), ""
        try:
            for text in live(id, prompt, ordered, length, temperature, top_p, seed, changes):
                yield text
            yield text + line({"event": "done", "race": id})
        except RequestError as error:
            yield text + refused(str(error))
        except Exception as error:
            LOG.exception("a race failed")
            yield text + refused(failure("the race", error))

    def ready() -> list[Any]:
        """The controls show what suits the loaded target, and only the methods that it can run are offered."""
        try:
            loaded = models.get()
        except RequestError:
            return [gr.skip()] * (1 + len(settings.shown()))
        return [gr.update(interactive=True), *settings.show(loaded)]

    running = viewer.run(
        run,
        [prompt, *settings.components()],
        viewer,
        show_progress="hidden",
        concurrency_id="model",
        concurrency_limit=1,
        api_visibility="private",
    )
    when_over(running, "over", "failed")
    prompt.submit(None, js=tell_run("asked"), api_visibility="private")
    told = viewer.ready(
        ready,
        None,
        [settings.take, *settings.shown()],
        show_progress="hidden",
        queue=False,
        api_visibility="private",
    )
    when_over(told, "able", "unable")  # not before: a run reads the controls
    return running


def _api(library: Library, live: Callable[..., Iterator[str]]) -> None:
    def race(
        prompt: str,
        methods: list[str],
        max_new_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> Iterator[str]:
        """Decode one prompt by several methods and return what each did, round by round.

        Args:
            prompt: the user's turn; the target's chat template is applied.
            methods: each once: vanilla, prompt_lookup, token_recycling, draft_model, eagle2, eagle3, jakiro.
            max_new_tokens: length cap of the answer.
            temperature: 0 for greedy, else 0.001 to 100.
            top_p: above 0 and up to 1, where 1 keeps every token.
            seed: whole number; the same seed gives the same text by every method.
            settings: those that differ from the device's defaults: method -> name -> value.

        Returns:
            JSON text: a list of traces (`jakiro-trace/1`) in the order of `methods`; until they are there, nothing.
        """
        id = Library.new_id()
        try:
            for _ in live(id, prompt, methods, max_new_tokens, temperature, top_p, seed, settings):
                yield ""  # here Gradio ends a race whose client has gone
            yield traces_json(library.traces(id))
        except RequestError as error:
            raise gr.Error(str(error), print_exception=False) from error
        except Exception as error:
            LOG.exception("a race failed")
            raise gr.Error(failure("the race", error)) from error

    gr.api(race, api_name="race", concurrency_id="model", concurrency_limit=1)
