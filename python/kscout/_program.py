"""Starts the programs that came with the package: the command `kscout`, and its verbs for Python.

Training, evaluation and datasets need Arrow and LightGBM, which the program `kscout-lab` loads in a process of its own:
`import kscout` loads neither, an application's own Arrow cannot clash with them, and a long training can be stopped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from .errors import DeviceFailure, Error, InvalidArgument, MissingPackage, Unsupported, by_code

PROGRAM = Path(__file__).parent / "kscout"
_BY_CODE = {**by_code, MissingPackage.code: MissingPackage}
_CODES = {2: InvalidArgument, 3: Unsupported, 4: DeviceFailure}  # for a program that ended without a JSON error


def _environment():
    """The environment in which the program finds Arrow and LightGBM of this Python, unless KSCOUT_PYTHON names another."""
    return {"KSCOUT_PYTHON": sys.executable, **os.environ}


def main():
    """Runs the command `kscout`, which replaces this process."""
    os.execve(PROGRAM, ["kscout", *sys.argv[1:]], _environment())


def _error(status, messages):
    """The exception for a program's message on stderr."""
    last = messages.strip().splitlines()[-1] if messages.strip() else f"{PROGRAM} ended with status {status}"
    try:
        report = json.loads(last)
        return _BY_CODE[report["error"]](report["message"])
    except (ValueError, KeyError, TypeError):
        return _CODES.get(status, Error)(last)


def flags(**options):
    """Options as a command line: `held_out=0.3` becomes `--held-out 0.3`; None is left out, True is a bare flag."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        words.append(flag)
        if value is True:
            continue
        words += [str(v) for v in value] if isinstance(value, (list, tuple)) else [str(value)]
    return words


def call(verb, *words, quiet=False):
    """Runs a verb that only writes files. Its messages go to stderr, unless `quiet`. Raises the error class of its exit status."""
    done = subprocess.run([PROGRAM, verb, *map(str, words)], env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if not quiet:
        sys.stderr.write(done.stderr)
    if done.returncode != 0:
        raise _error(done.returncode, done.stderr)


def run(verb, *words, check_may_fail=False):
    """Runs a verb with --format json and returns what it printed. Raises the error class that the program names.

    `check_may_fail`: exit status 1 (a criterion was missed) still has a result.
    """
    done = subprocess.run(
        [PROGRAM, verb, *map(str, words), "--format", "json"],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode == 0 or (check_may_fail and done.returncode == 1):
        return json.loads(done.stdout)
    raise _error(done.returncode, done.stderr)
