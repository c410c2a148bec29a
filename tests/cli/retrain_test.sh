#!/bin/sh
# retrain_test.sh REPOSITORY PROGRAMS: the round of examples/retrain.sh, with a new model of one tree that sees the depth of tiles only, no match for the old one;
# then the other way around: a model that is points better takes the place of that one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export KSCOUT="$2/kscout"
"$KSCOUT" dataset split "$1/data/ck_tile_conv_fwd_bf16_gfx950.parquet" --held-out 0.5 --out "$folder/training.parquet" \
  --held-out-out "$folder/held_out.parquet"
"$KSCOUT" train --data "$folder/training.parquet" --targets relative --folds 2 --rounds 30 --threads 1 --out "$folder/old"
code=0
"$1/examples/retrain.sh" "$folder/old" "$folder/training.parquet" "$folder/held_out.parquet" "$folder/new" \
  --targets relative --features tile_k --rounds 1 --threads 1 >"$folder/out" 2>"$folder/err" || code=$?
tail -3 "$folder/err"
[ "$code" = 1 ] || exit 1
grep -q 'FAIL: the new one is not accepted' "$folder/err"
[ -s "$folder/new.new.summary.csv" ]
"$1/examples/retrain.sh" "$folder/new" "$folder/training.parquet" "$folder/held_out.parquet" "$folder/better" \
  --targets relative --rounds 30 --threads 1 >"$folder/out" 2>"$folder/err"
grep '^mean efficiency' "$folder/out"
grep -q 'PASS: the new one is accepted' "$folder/err"
