"""A race as one HTML file that needs no server and no network: the page's viewer, plotly and the traces in it.

The viewer is the page's own. Its modules come as data: addresses under the names of an import map, what it would fetch
lies in the file, and a content security policy keeps it from fetching anything else.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jakiro.assets import ASSETS, PLOTLY
from jakiro.trace import Trace
from jakiro.traces import traces_json
from jakiro.ui.about import OPENED, WHAT_IF, about, method_summaries, prepared, prompt_of
from jakiro.ui.replay import cut_figure

ID = "replay"
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
BEGINNING = b"<!doctype html>"  # of such a page, as of others
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
body {{ margin: 0; font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }}
*, ::before, ::after {{ box-sizing: border-box; }}
#viewer {{ padding: 10px 16px; }}
{style}
</style>
<script type="importmap">{modules}</script>
</head>
<body class="gradio-container">
<div id="viewer" class="offline{kept}">{template}</div>
<script type="application/json" id="race">{race}</script>
<script type="application/json" id="traces">{traces}</script>
<script type="application/json" id="cut">{cut}</script>
<script type="application/json" id="compared">{compared}</script>
<script>{plotly}</script>
<script type="module">
import {{mount}} from 'viewer/main.js';
const text = (id) => document.getElementById(id).textContent;
const inside = {{
  'races/{id}.json': text('race'),
  'models.json': '{{"state": "offline", "text": "A file has no model to ask: it holds what was asked before."}}',
  'benchmarks.json': '{{"reports": []}}',
}};
JSON.parse(text('cut')).forEach((figure, lane) => {{
  inside[`races/{id}/cut/${{lane}}.json`] = JSON.stringify(figure);
}});
Object.entries(JSON.parse(text('compared'))).forEach(([lanes, found]) => {{
  inside[`races/{id}/compare/${{lanes}}.json`] = JSON.stringify(found);
}});
window.fetch = async (name) => new Response(inside[name] ?? 'not in this file', {{status: name in inside ? 200 : 404}});
mount({{
  element: document.getElementById('viewer'), watch() {{}}, send() {{}},
  props: {{races: [{{id: '{id}', title: JSON.parse(text('race')).about.title}}], exports: ['traces.json'],
    summaries: {summaries},
    files: {{'traces.json': URL.createObjectURL(new Blob([text('traces')], {{type: 'application/json'}}))}}}},
}});
</script>
</body>
</html>
"""


def page(traces: Sequence[Trace], facts: Mapping[str, Any] = OPENED) -> str:
    """The file's text, for at least one trace; `facts` are what the library says of the race, where it has it,
    and under `compared` the comparisons of its lanes.
    """
    shown = about(ID, prompt_of(traces[0]), traces, _lasting(facts))
    compared = facts.get("compared", {})
    return PAGE.format(
        policy=POLICY,
        title=html.escape(f"Jakiro Debugger: {traces[0].target}"),
        style=(ASSETS / "style.css").read_text(encoding="utf-8"),
        modules=json.dumps({"imports": _modules(ASSETS / "viewer")}),
        template=(ASSETS / "page.html").read_text(encoding="utf-8").replace("@children", ""),
        race=_inert(prepared(shown, traces)),
        traces=_inert(traces_json(traces)),
        cut=_inert(f"[{','.join(map(cut_figure, traces))}]"),
        summaries=_inert(json.dumps(method_summaries())),
        kept=" compared" * bool(compared),
        compared=_inert("{" + ",".join(f'"{lanes}":{text}' for lanes, text in compared.items()) + "}"),
        plotly=PLOTLY.read_text(encoding="utf-8"),
        id=ID,
    )


def _lasting(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What stays so in a file: there is no race to go back to, and none is live or the page's own."""
    kept = {name: value for name, value in facts.items() if name not in ("id", "back", "compared")}
    return kept if facts["kind"] == WHAT_IF else kept | OPENED


def _modules(folder: Path) -> dict[str, str]:
    """Name -> address of the viewer's modules."""
    found = {}
    for file in sorted(folder.glob("*.js")):
        text = file.read_text(encoding="utf-8").replace("from './", "from 'viewer/")
        found[f"viewer/{file.name}"] = "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
    return found


def _inert(text: str) -> str:
    """JSON that ends no script element."""
    return text.replace("<", "\\u003c")
