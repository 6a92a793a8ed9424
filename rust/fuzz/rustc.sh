#!/bin/sh
# rustc for the fuzz targets: tells libFuzzer which code of this project ran and what it compared, with
# the flags of cargo-fuzz. Other crates are left alone: the plain twins live on them, and their ways
# through a regular expression are not what is looked for. Called by cargo as RUSTC_WRAPPER.
rustc=$1
shift
case " $* " in
*" --crate-name nanotok_bpe "* | *" --crate-name nanotok_chat "* | *" --crate-name nanotok_pack "* | *" --crate-name split "* | *" --crate-name encode "*)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
