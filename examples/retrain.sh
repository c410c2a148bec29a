#!/bin/sh
# Trains a model anew on grown data and says whether it may take the place of the old one.
#
#   examples/retrain.sh OLD_MODEL TRAINING.parquet HELD_OUT.parquet NEW_MODEL [train options...]
#
# Three folds; both models are validated on the held-out problems, then compared: exit 0 when the new one is accepted, 1 when
# not, else the code of what failed. KSCOUT names the program (default: kscout on the path). The tables of both
# validations stay beside the new model.
set -eu
[ $# -ge 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$1 training=$2 held_out=$3 new=$4
shift 4
kscout=${KSCOUT:-kscout}

"$kscout" train --data "$training" --folds 3 --out "$new" "$@"
"$kscout" validate --model "$old" --data "$held_out" --out "$new.old.csv" --ck-summary-out "$new.old.summary.csv"
"$kscout" validate --model "$new" --data "$held_out" --out "$new.new.csv" --ck-summary-out "$new.new.summary.csv"
"$kscout" compare "$new.old.csv" "$new.new.csv"
