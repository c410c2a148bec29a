#!/usr/bin/env bash
# ./dev bench build: how long a newcomer and CI wait. Copies of what git tracks, an empty HOME, the standard PATH, no compiler cache
# but the one of the last line: ./dev demo, then ./dev test in the same folder, `pip install .` in a copy of its own, then .ci/run
# in two more.
#
#   RESULT build.demo_s       ./dev demo: wheels, compiling, 45 s of tune
#   RESULT build.test_s       ./dev test after it
#   RESULT build.wheel_s      pip install .
#   RESULT build.ci_s         .ci/run with an empty cache
#   RESULT build.ci_cached_s  .ci/run with the cache of that run, after a change of one source in src/select
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
timed demo bare "$work/kscout/dev" demo
timed test bare "$work/kscout/dev" test
rm -rf "$work/kscout"
copy "$work/wheel"
bare python3 -m venv "$work/venv"
timed wheel bare "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$work/wheel"
rm -rf "$work/wheel"
copy "$work/ci"
timed ci env KSCOUT_CI_CACHE="$work/cache" bash "$work/ci/.ci/run"
rm -rf "$work/ci"
copy "$work/ci_again"
echo "[[maybe_unused]] static const int kChanged = 1;" >>"$work/ci_again/src/select/selector.cpp"
timed ci_cached env KSCOUT_CI_CACHE="$work/cache" bash "$work/ci_again/.ci/run"
