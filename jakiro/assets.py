"""Where the files that ship with the project are. Paths only; nothing is read here."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
TARGET = ASSETS / "models" / "chat-31m"  # the embedded target; its heads are its sub-folders
TRACES = ASSETS / "traces"
BENCHMARKS = ASSETS.parent / "benchmarks"  # measurements as JSON
TEMPLATES = ASSETS / "templates"  # chat templates for targets that have none
PLOTLY = ASSETS / "plotly" / "plotly-cartesian-4.1.1.min.js"  # plotly.js without 3D, maps and what else no figure has
PROMPTS = ASSETS / "prompts.json"  # the page's examples
