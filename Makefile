PYTHON ?= python
DATA ?= data
EVAL = $(foreach set,mt_bench humaneval gsm8k alpaca qa sum,$(DATA)/eval/$(set).jsonl)

.PHONY: run check test bench auto tree-sizes plots shapes long-text load scrub screenshots mutants gpu-texts gpu-texts-mix gpu-texts-own gpu-target gpu-heads gpu-bench gpu-compiled gpu-attention gpu-tests gpu-peers

run:
	$(PYTHON) app.py

check:
	ruff check .
	ruff format --check .
	$(PYTHON) -m pytest -n logical

test:
	$(PYTHON) -m pytest -n logical

bench:  ## the six evaluation sets: the device's default tree, 60 nodes, Jakiro with a pass for each level, sampled, copies, a draft model
	$(PYTHON) -m jakiro bench --methods vanilla,prompt_lookup,eagle2,jakiro --peers --limits --prompts $(EVAL) --limit 10 --repeats 3 --out benchmarks/cpu.json
	$(PYTHON) -m jakiro bench --prompts $(EVAL) --limit 10 --set top_k=10 --set depth=6 --set total_tokens=60 --out benchmarks/cpu-60.json
	$(PYTHON) -m jakiro bench --prompts $(EVAL) --limit 10 --repeats 3 --set contrastive=off --out benchmarks/cpu-passes.json
	$(PYTHON) -m jakiro bench --methods vanilla,prompt_lookup,eagle2,jakiro --peers --temperature 1 --prompts $(EVAL) --limit 10 --repeats 3 --out benchmarks/cpu-t1.json
	$(PYTHON) -m jakiro bench --variants benchmarks/variants/coupled.json --prompts $(EVAL) --limit 10 --temperature 1 --out benchmarks/cpu-coupled.json
	$(PYTHON) -m jakiro bench --methods vanilla,prompt_lookup,token_recycling,eagle2,jakiro --prompts $(EVAL) --limit 5 --max-new-tokens 128 --temperature 0 1 --repeats 2 --out benchmarks/token-recycling-cpu.json
	$(PYTHON) -m jakiro bench --variants benchmarks/variants/token-recycling.json --prompts $(EVAL) --limit 3 --max-new-tokens 128 --out benchmarks/token-recycling-trees-cpu.json
	$(PYTHON) -m jakiro bench --variants benchmarks/variants/lookup.json --prompts $(EVAL) --limit 10 --temperature 0 1 --repeats 2 --out benchmarks/lookup-cpu.json
	$(PYTHON) -m jakiro bench --methods vanilla,draft_model,eagle2,jakiro --limits --prompts $(EVAL) --limit 10 --repeats 3 --out benchmarks/cpu-draft-model.json

auto:  ## which tree pays on this machine, and whether it is as quick as the best of a grid
	$(PYTHON) -m jakiro tune --method eagle2 --prompts $(EVAL) --limit 2 --out benchmarks/tuning-eagle2-cpu.json
	$(PYTHON) -m jakiro tune --method jakiro --prompts $(EVAL) --limit 2 --out benchmarks/tuning-jakiro-cpu.json
	$(PYTHON) -m benchmarks.auto --method eagle2 --prompts $(EVAL) --limit 2 --top-k 2 3 5 --depth 2 3 --total-tokens 4 6 8 --repeats 3 --out benchmarks/auto-eagle2.json
	$(PYTHON) -m benchmarks.auto --method jakiro --prompts $(EVAL) --limit 2 --top-k 2 3 5 --depth 2 3 --total-tokens 4 6 8 --repeats 3 --out benchmarks/auto-jakiro.json
	$(PYTHON) -m benchmarks.auto --method jakiro --temperature 1 --prompts $(EVAL) --limit 2 --top-k 2 3 5 --depth 2 3 --total-tokens 4 6 8 --repeats 2 --out benchmarks/auto-jakiro-t1.json

tree-sizes:  ## what trees of several sizes cost and bring here: where the default tree of a CPU comes from
	$(PYTHON) -m scripts.tree_sizes --prompts $(EVAL) --limit 3 --max-new-tokens 96 --top-k 3 5 --depth 2 3 --total-tokens 4 5 6 8 10 --draft-temperature 0.7 --out benchmarks/tree-sizes-cpu.json

plots:  ## every figure of the benchmark view as SVG; headless Chromium
	$(PYTHON) scripts/plots.py

shapes:  ## step costs at Llama-2-7B's and Llama-3-8B's shapes with random weights; needs a GPU of 24 GB
	$(SHAPE) llama-2-7b --out benchmarks/shapes-7b.json
	$(SHAPE) llama-2-7b --compile --out benchmarks/shapes-7b-compiled.json
	$(SHAPE) llama-3-8b --compile --out benchmarks/shapes-8b-compiled.json

long-text:  ## cost of a round against the length of the text, memory over 10,000 rounds
	$(PYTHON) -m benchmarks.long_text --out benchmarks/long-text.json
	$(PYTHON) -m benchmarks.operations --nodes 1 10 --context 64 512 1900 --out benchmarks/operations-epyc.json

load:  ## what the page costs a race, and the largest race on the page; headless Chromium
	$(PYTHON) -m benchmarks.load --repeats 6 --visits 3 --out benchmarks/load.json

scrub:  ## the page in headless Chromium: frames while scrubbing, time to the first screen
	$(PYTHON) -m benchmarks.scrub --out benchmarks/scrub.json

screenshots:
	$(PYTHON) scripts/screenshots.py

mutants:  ## plants one-line mistakes and shows that the suite catches each
	$(PYTHON) -m scripts.mutants

SHAPE = $(PYTHON) -m benchmarks.shapes --device cuda --dtype bfloat16 --lengths 128 1024 --rounds 40 --repeats 2 --shape

GPU_RESULTS ?= benchmarks

gpu-bench:  ## the embedded models on a GPU, in fp32 and in bfloat16
	$(GPU_BENCH) --limits --out $(GPU_RESULTS)/h200.json
	$(GPU_BENCH) --dtype bfloat16 --out $(GPU_RESULTS)/h200-bf16.json

gpu-compiled:  ## the same by torch.compile
	$(GPU_BENCH) --dtype bfloat16 --compile --out $(GPU_RESULTS)/h200-bf16-compiled.json

gpu-attention:  ## its attention alone, in fp32 and as the 7 B shapes have it
	$(PYTHON) -m benchmarks.attention --device cuda --out $(GPU_RESULTS)/attention-h200.json
	$(PYTHON) -m benchmarks.attention --device cuda --dtype bfloat16 --out $(GPU_RESULTS)/attention-h200-bf16.json

gpu-tests:  ## the tests that need a GPU
	$(PYTHON) -m pytest -m gpu tests/test_gpu.py tests/test_gpu_training.py

gpu-peers:  ## transformers' own decoders beside ours on a GPU, sampled, too
	$(GPU_BENCH) --limit 3 --peers --temperature 0 1 --out $(GPU_RESULTS)/h200-peers.json

# The embedded models by the recipes for one GPU. Each command goes on where it was if it is interrupted.
DEVICE ?= cuda
RECIPES ?= jakiro/training/recipes
TEACHER ?= HuggingFaceTB/SmolLM2-135M-Instruct
GPU_RUN ?= runs/gpu
GPU_OUT ?= assets/models/chat-31m
GPU_TEXTS = $(PYTHON) -m jakiro train texts --device $(DEVICE) --target $(TEACHER) --data $(DATA)
GPU_TRAIN = $(PYTHON) -m jakiro train $(1) --device $(DEVICE) --recipe $(RECIPES)/$(2)-gpu.json --data $(DATA) --run-folder $(GPU_RUN)/$(2)
GPU_BENCH = $(PYTHON) -m jakiro bench --target $(GPU_OUT) --device $(DEVICE) --methods vanilla,prompt_lookup,eagle2,jakiro --prompts $(EVAL) --limit 10

gpu-texts: gpu-texts-mix gpu-texts-own  ## what the teacher answers, to the data's prompts and to its own; with -j2 side by side

gpu-texts-mix:
	$(GPU_TEXTS) --recipe $(RECIPES)/texts-gpu.json --out $(DATA)/train/teacher.jsonl

gpu-texts-own:
	$(GPU_TEXTS) --recipe $(RECIPES)/texts-own-gpu.json --out $(DATA)/train/teacher-own.jsonl

gpu-target:  ## the target: begins as a part of the teacher
	$(call GPU_TRAIN,target,target) --parent $(TEACHER) --out $(GPU_OUT)

gpu-heads:  ## its own answers, both heads, and what they bring
	$(call GPU_TRAIN,eagle2 jakiro,heads) --target $(GPU_OUT)
	$(GPU_BENCH) --limits --out $(GPU_OUT)/bench.json
