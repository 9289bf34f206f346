# Everything here is plain pip and python; the targets only save typing.
#
#   make demo    the main example on the default model
#   make test    all tests
#   make lint    ruff, mypy, import-linter
#   make contracts   the GPU path against FlashInfer's signatures and in Triton's interpreter
#   make bench   the benchmark of the main job; others by ARGS="chat --quick"
#   make bench-peers   the engines that workloads are compared with (large; PEERS="vllm" for one)
#   make bench-grammars   the benchmark of constraints, beside other engines
#   make bench-frontend   the benchmark of the frontend, beside SGLang's
#
# PYTHON picks the interpreter (>= 3.11), ARGS goes to the command: make demo ARGS="--limit 20".
# pip's own configuration and environment variables (proxies, mirrors, PIP_FIND_LINKS) are honoured.
# A plain Linux machine without a GPU gets torch's small CPU build with
#   make demo PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CONTRACTS := .contracts
PEER_GRAMMARS := .bench-venv
PEER_FRONTEND := .bench-frontend-venv
PEER_ENGINES := .bench-peers
PEERS ?= transformers vllm llama-cpp openvino

ifdef PIP_EXTRA_INDEX_URL
export PIP_EXTRA_INDEX_URL
endif

.PHONY: demo test contracts fuzz stress lint format bench bench-peers bench-grammars bench-frontend clean

demo: $(INSTALLED)
	$(BIN)/python examples/extract_packages.py $(ARGS)

# A process for each core, each with whole files of tests, the small ones last; in one: ARGS="-n 0".
test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# FlashInfer and Triton take 2 GB, so `make test` goes without: it binds calls to a snapshot of the
# signatures, which this compares with the package's, and skips the kernel, which this interprets.
contracts: $(INSTALLED) $(CONTRACTS)/.installed
	PYTHONPATH=$(CONTRACTS) $(BIN)/python -m pytest tests/runtime/attention/test_flashinfer.py \
	tests/runtime/sampling/test_bitmask.py $(ARGS)

# Ten minutes of random patterns, grammars and schemas: each is a constraint, or refused.
fuzz: $(INSTALLED)
	$(BIN)/python -m pytest -m fuzz $(ARGS)

# Ten thousand random programs, a thousand batches under faults, and twenty minutes of mixed work.
stress: $(INSTALLED)
	$(BIN)/python -m pytest -m stress -s $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(PEERS:%=$(PEER_ENGINES)/%/.installed)

bench-grammars: $(INSTALLED) $(PEER_GRAMMARS)/.installed
	$(BIN)/python -m benchmarks grammars $(ARGS)

bench-frontend: $(INSTALLED) $(PEER_FRONTEND)/.installed
	$(BIN)/python -m benchmarks frontend $(ARGS)

clean:
	rm -rf $(VENV) $(CONTRACTS) $(PEER_GRAMMARS) $(PEER_FRONTEND) $(PEER_ENGINES) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# Installs again only when the dependencies have changed; an interrupted install has no stamp.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sgdsl needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[dev]" \
	|| { echo "make: the packages could not be installed (pip's reason is above). This step needs the Python package index: check the network, or point pip to a proxy or mirror (PIP_INDEX_URL, HTTPS_PROXY), and run make again." >&2; exit 1; }
	@touch $@

$(CONTRACTS)/.installed: tests/requirements-contracts.txt
	$(BIN)/python -m pip install --no-deps --upgrade --target $(CONTRACTS) --requirement $<
	@touch $@

# The other engines, in an environment of their own. Of mistral-common only a data file is read.
$(PEER_GRAMMARS)/.installed: benchmarks/requirements-grammars.txt constraints.txt
	$(PYTHON) -m venv $(PEER_GRAMMARS)
	$(PEER_GRAMMARS)/bin/python -m pip install --requirement benchmarks/requirements-grammars.txt
	$(PEER_GRAMMARS)/bin/python -m pip install --no-deps mistral-common==1.13.1
	@touch $@

$(PEER_FRONTEND)/.installed: benchmarks/requirements-frontend.txt constraints.txt
	$(PYTHON) -m venv $(PEER_FRONTEND)
	$(PEER_FRONTEND)/bin/python -m pip install --requirement benchmarks/requirements-frontend.txt
	$(PEER_FRONTEND)/bin/python -m pip install --no-deps sglang==0.5.5
	@touch $@

# The engines that workloads are compared with, each in an environment of its own. The two that
# bring a torch bring packages for images and sound too, which expect another one.
$(PEER_ENGINES)/%/.installed: benchmarks/peers/requirements-%.txt constraints.txt
	$(PYTHON) -m venv $(PEER_ENGINES)/$*
	CMAKE_ARGS="-DGGML_NATIVE=ON" $(PEER_ENGINES)/$*/bin/python -m pip install --requirement $<
	$(PEER_ENGINES)/$*/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec
	@touch $@
