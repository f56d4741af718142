# Thin: each target installs what it needs (.ci/install) and calls one program.

OUT := out
ANABRANCH = target/release/anabranch
# Cargo's own variable moves the target directory; follow it.
ifdef CARGO_TARGET_DIR
ANABRANCH = $(CARGO_TARGET_DIR)/release/anabranch
endif

.PHONY: help demo test stores dpdk model soak bench bench-stores plans docs clean

help:
	@echo "make demo    build, make traffic, run a NAT and a firewall, write $(OUT)/report.html"
	@echo "make test    format, lints, documents, every test"
	@echo "make stores  the drivers of state stores, against real servers"
	@echo "make dpdk    ports over DPDK, with its virtual devices and hosts around them"
	@echo "make model   what workers hand over and transactions, under schedules that model checkers draw"
	@echo "make soak    hosts around a firewall at full rate for twenty minutes, over each kind of port"
	@echo "make bench   measure every network function against the same job written by hand"
	@echo "make bench-stores  what each store costs, Redis and Cassandra among them, which it starts"
	@echo "make plans   plan every network function: docs/plan.md, and how long that takes"
	@echo "make docs    the documentation of every crate"

# Without functions and commands that the demo does not run.
demo:
	@.ci/install
	cargo build --release --locked --package anabranch --no-default-features \
	    --features library,redis,terminal
	@.ci/demo $(ANABRANCH) $(OUT)

test:
	@.ci/install tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo test --workspace --locked
	@$(MAKE) --no-print-directory stores
	@$(MAKE) --no-print-directory dpdk
	@$(MAKE) --no-print-directory model

# The drivers that need a library of their own, against servers that the tests start.
stores:
	@.ci/install tests
	cargo clippy --package anabranch-store --all-features --all-targets --locked -- -D warnings
	cargo test --package anabranch-store --all-features --locked --lib
	@.ci/drivers

# What takes DPDK (Debian: libdpdk-dev), and of the program no more than that takes.
dpdk:
	cargo clippy --package anabranch-io --features dpdk --all-targets --locked -- -D warnings
	cargo test --package anabranch-io --features dpdk --locked --lib --test dpdk -- --test-threads 1
	cargo test --package anabranch --no-default-features --features library,dpdk --locked --test dpdk -- --test-threads 1

# Threads and channels are the model checker's here: everything is compiled apart.
model:
	RUSTFLAGS="--cfg shuttle" cargo test --locked --package anabranch-runtime --test model \
	    --target-dir $(or $(CARGO_TARGET_DIR),target)/model
	RUSTFLAGS="--cfg shuttle" cargo test --locked --package anabranch-txn --lib \
	    --target-dir $(or $(CARGO_TARGET_DIR),target)/model
	RUSTFLAGS="--cfg loom" cargo test --locked --release --package anabranch-txn --lib \
	    --target-dir $(or $(CARGO_TARGET_DIR),target)/loom

# Needs root, for network namespaces.
soak:
	@.ci/install tests
	LIVE_SOAK_S=$(or $(SECONDS),600) cargo test --locked --package anabranch --test live \
	    -- --nocapture --test-threads 1 soak

bench:
	@.ci/install
	cargo build --release --locked --package anabranch
	@mkdir -p $(OUT)
	$(ANABRANCH) bench --json $(OUT)/bench.json

# With servers of its own; ARGUMENTS are those of `anabranch bench`.
bench-stores:
	@.ci/install tests
	cargo build --release --locked --package anabranch --features cassandra
	@.ci/stores $(ANABRANCH) $(or $(ARGUMENTS),nat lb firewall --flows 1000$(comma)65536)

comma := ,

# Beside it, what compiling the functions takes, which planning does not.
plans:
	@.ci/install
	cargo build --release --locked --package anabranch
	@touch nfs/src/lib.rs
	@started=$$(date +%s%N); cargo build --quiet --release --locked --package anabranch-nfs; \
	    echo "compiling the functions: $$((($$(date +%s%N) - started) / 1000000)) ms"
	@$(ANABRANCH) plan --all

docs:
	@.ci/install
	cargo doc --workspace --no-deps --locked

clean:
	rm -rf $(OUT)
	cargo clean
