#!/bin/sh
# Builds the fuzz targets with nightly Rust and runs one after the other, each for some seconds:
#     sh rust/fuzz/run.sh SECONDS [TARGET ...]
# Keeps inputs that reach something new in build/fuzz/TARGET; one that fails is build/fuzz/TARGET-crash-*,
# and the target run with its name fails again. FUZZ_SANITIZER=address looks for memory errors too, at a
# fraction of the speed; NANOTOK_CPU=portable or avx2 fuzzes another level than the CPU's best.
set -eu
[ $# -gt 0 ] || { echo "usage: sh rust/fuzz/run.sh SECONDS [split|encode|others|learn|render|pack|json|templates ...]" >&2; exit 2; }
seconds=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
out=build/fuzz
built=rust/target/fuzz
lacking() { echo "make fuzz needs $1" >&2; exit 1; }

command -v rustup >/dev/null || lacking "rustup"
rustup run nightly rustc --version || lacking "nightly Rust: rustup toolchain install nightly"
command -v c++ >/dev/null || lacking "a C++ compiler (c++): libFuzzer is built from its source"

host=$(rustup run nightly rustc -vV | sed -n 's/^host: //p')
sanitizer=${FUZZ_SANITIZER:+-Zsanitizer=$FUZZ_SANITIZER}
RUSTFLAGS=$sanitizer RUSTC_WRAPPER=$here/rustc.sh rustup run nightly cargo build --locked --release \
    --manifest-path "$here/Cargo.toml" --target "$host" --target-dir "$built"

for target in ${*:-split encode others learn render pack json templates}; do
    mkdir -p "$out/$target"
    python3 "$here/seeds.py" "$out/$target-seeds" "$target"
    echo "== $target: $seconds seconds"
    "$built/$host/release/$target" -max_total_time="$seconds" -max_len=300 -len_control=0 -timeout=60 \
        -rss_limit_mb=6000 -print_final_stats=1 -artifact_prefix="$out/$target-" \
        "$out/$target" "$out/$target-seeds"
done
