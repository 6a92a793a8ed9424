#!/bin/sh
# rustc for the fuzz targets: adds the flags of cargo-fuzz to the crates of this project, so that libFuzzer
# sees which code ran and which values were compared. Other crates are compiled without them: the reference
# implementations use those crates, and their coverage must not guide the search. Cargo calls this script
# as RUSTC_WRAPPER. The targets `split` and `encode` are included for the values that they compare.
rustc=$1
shift
case " $* " in
*" --crate-name nanotok_bpe "* | *" --crate-name nanotok_chat "* | *" --crate-name nanotok_json "* | *" --crate-name nanotok_template "* | *" --crate-name nanotok_pack "* | *" --crate-name split "* | *" --crate-name encode "*)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
