#!/usr/bin/env bash
# ./dev bench build: how long a newcomer waits. A copy of what git tracks, an empty HOME, the standard PATH, no compiler cache:
# ./dev demo, then ./dev test in the same folder, then `pip install .` in another copy from nothing.
#
#   RESULT build.demo_s   ./dev demo: wheels, compiling, 45 s of tune
#   RESULT build.test_s   ./dev test after it
#   RESULT build.wheel_s  pip install .
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

copy() {  # copy FOLDER: the tracked files as they are, with a history of one commit
  mkdir -p "$1"
  git ls-files -z | xargs -0 tar --create | tar --extract --directory "$1"
  git -C "$1" init -q && git -C "$1" add -A && git -C "$1" -c user.name=bench -c user.email=bench commit -qm bench
}
bare() { env -i HOME="$work/home" TERM=dumb CCACHE_DISABLE=1 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
timed() {  # timed NAME COMMAND...
  local name=$1 begin=$SECONDS
  shift
  "$@" >"$work/$name.log" 2>&1 </dev/null || { tail -n 40 "$work/$name.log" >&2; echo "build: $* failed" >&2; exit 1; }
  echo "RESULT build.${name}_s $((SECONDS - begin)) s"
}

mkdir "$work/home"
copy "$work/kscout"
cd "$work/kscout"
timed demo bare ./dev demo
timed test bare ./dev test
copy_of_wheel=$work/wheel
mkdir "$copy_of_wheel"
git -C "$work/kscout" archive HEAD | tar --extract --directory "$copy_of_wheel"
bare python3 -m venv "$work/venv"
timed wheel bare "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$copy_of_wheel"
