PYTHON ?= python
DATA ?= data
EVAL = $(foreach set,mt_bench humaneval gsm8k alpaca qa sum,$(DATA)/eval/$(set).jsonl)

.PHONY: run check test bench scrub screenshots mutants

run:
	$(PYTHON) app.py

check:
	ruff check .
	ruff format --check .
	$(PYTHON) -m pytest

test:
	$(PYTHON) -m pytest

bench:  ## the six evaluation sets, 10 prompts each, with the device's default tree and with 60 nodes
	$(PYTHON) -m jakiro bench --methods vanilla,prompt_lookup,eagle2,jakiro --peers --prompts $(EVAL) --limit 10 --out benchmarks/cpu.json
	$(PYTHON) -m jakiro bench --prompts $(EVAL) --limit 10 --set top_k=10 --set depth=6 --set total_tokens=60 --out benchmarks/cpu-60.json

scrub:  ## the page in headless Chromium: frames while scrubbing, time to the first screen
	$(PYTHON) benchmarks/scrub.py --out benchmarks/scrub.json

screenshots:
	$(PYTHON) scripts/screenshots.py

mutants:  ## plants one-line mistakes and shows that the suite catches each
	$(PYTHON) -m scripts.mutants
