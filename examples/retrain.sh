#!/bin/sh
# Trains a new model on more data and decides whether it may replace the old one.
#
#   examples/retrain.sh OLD_MODEL TRAINING.parquet HELD_OUT.parquet NEW_MODEL [train options...]
#
# Trains with three folds, validates both models on the held-out problems, and compares them. Exit code: 0 when the new
# model is accepted, 1 when not, else that of the step that failed. KSCOUT names the program (default: kscout on the path).
# The tables of both validations stay beside the new model.
set -eu
[ $# -ge 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$1 training=$2 held_out=$3 new=$4
shift 4
kscout=${KSCOUT:-kscout}

"$kscout" train --data "$training" --folds 3 --out "$new" "$@"
"$kscout" validate --model "$old" --data "$held_out" --out "$new.old.csv" --ck-summary-out "$new.old.summary.csv"
"$kscout" validate --model "$new" --data "$held_out" --out "$new.new.csv" --ck-summary-out "$new.new.summary.csv"
"$kscout" compare "$new.old.csv" "$new.new.csv"
