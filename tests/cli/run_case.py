#!/usr/bin/env python3
"""Runs one text file of command-line expectations: tests/cli/*.test.

    run_case.py FOLDER_OF_PROGRAMS CASE.test

A case is lines of `word rest`; blank lines and lines that start with # are skipped. It runs in an empty folder of its own that
is also HOME, so it sees nothing of the user and leaves nothing behind. `$TESTS` in a line is the folder tests/.

    needs lab               skip the rest of the case where kscout-lab was not built; cuda: libkscout_cuda.so
    file NAME               creates NAME from the lines below it that start with "| "
    env NAME=VALUE          for the runs below
    timeout SECONDS         for the runs below (default 60)
    run kscout ARGS...      starts a program (sh -c '...' for pipes and redirections); words are split as a shell does; what follows is expected of it
    exit N                  exit code (default 0)
    stdout empty            (stderr the same way, and in all of the following)
    stdout is TEXT          repeated: the lines are exactly these
    stdout has TEXT         TEXT stands somewhere in it
    stdout lacks TEXT       TEXT stands nowhere in it
    stdout only REGEX       every line of it, if there is one, matches this from its first character to its last
    stdout matches REGEX    the regular expression is found; ^ and $ match at line ends
    stdout lines N          it has at most N lines
    stdout json             it is one JSON document
    stdout json PATH VALUE  the value at PATH, e.g. `detected.cores` or `0.name`, equals the JSON VALUE
    exists PATH             the run left this file or folder
    missing PATH            the run left no such file or folder
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77


class Mismatch(Exception):
    pass


def json_at(text, path):
    value = json.loads(text)
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def check_stream(name, text, rest):
    """One expectation about stdout or stderr; `is` lines are collected by the caller."""
    kind, _, wanted = rest.partition(" ")
    if kind == "empty" and text:
        raise Mismatch(f"{name} is not empty")
    if kind == "has" and wanted not in text:
        raise Mismatch(f"{name} has no '{wanted}'")
    if kind == "lacks" and wanted in text:
        raise Mismatch(f"{name} has '{wanted}'")
    if kind == "only":
        for line in text.splitlines():
            if not re.fullmatch(wanted, line):
                raise Mismatch(f"{name} has a line that is not /{wanted}/: {line}")
    if kind == "matches" and not re.search(wanted, text, re.MULTILINE):
        raise Mismatch(f"{name} does not match /{wanted}/")
    if kind == "lines" and len(text.splitlines()) > int(wanted):
        raise Mismatch(f"{name} has {len(text.splitlines())} lines, more than {wanted}")
    if kind == "json":
        path, _, value = wanted.partition(" ")
        try:
            found = json_at(text, path) if path else json.loads(text)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise Mismatch(f"{name}: no JSON value at '{path}': {error!r}") from error
        if value and found != json.loads(value):
            raise Mismatch(f"{name}: {path} is {json.dumps(found)}, not {value}")
    if kind not in ("empty", "is", "has", "lacks", "only", "matches", "lines", "json"):
        raise ValueError(f"unknown expectation '{name} {rest}'")


class Case:
    def __init__(self, programs, path):
        self.programs = os.path.abspath(programs)
        self.tests = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        with open(path, encoding="utf-8") as file:
            self.lines = [line.rstrip("\n").replace("$TESTS", self.tests) for line in file]
        self.folder = tempfile.mkdtemp(prefix="kscout_cli_")
        self.env = dict(os.environ, HOME=self.folder, LC_ALL="C")
        self.env.pop("KSCOUT_MODEL_PATH", None)
        self.env["PATH"] = self.programs + os.pathsep + self.env.get("PATH", "")  # for `run sh -c "kscout ..."`
        self.timeout = 60.0

    def command(self, rest):
        words = shlex.split(rest)
        path = os.path.join(self.programs, words[0])
        return [path if os.path.exists(path) else words[0]] + words[1:]

    def run(self, rest):
        return subprocess.run(self.command(rest), cwd=self.folder, env=self.env, timeout=self.timeout, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, errors="replace", check=False)

    def write_file(self, name, at):
        """Content of `file NAME`: the lines after `at` that start with "| "; returns the next line's index."""
        end = at
        while end < len(self.lines) and self.lines[end].startswith("|"):
            end += 1
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line[2:] + "\n" for line in self.lines[at:end])
        return end

    def expectations(self, at):
        """The lines about the run before index `at`; returns (list of (line number, word, rest), next index)."""
        found = []
        while at < len(self.lines):
            word, _, rest = self.lines[at].partition(" ")
            if word in ("run", "file", "env", "timeout", "needs"):
                break
            if word and not word.startswith("#"):
                found.append((at + 1, word, rest.strip() if word != "stdout" and word != "stderr" else rest.lstrip()))
            at += 1
        return found, at

    def check(self, done, expected):
        if not any(word == "exit" for _, word, _ in expected) and done.returncode != 0:
            raise Mismatch(f"exit code {done.returncode}, not 0")
        streams = {"stdout": done.stdout, "stderr": done.stderr}
        for number, word, rest in expected:
            if word == "exit":
                if done.returncode != int(rest):
                    raise Mismatch(f"line {number}: exit code {done.returncode}, not {rest}")
            elif word in streams:
                try:
                    check_stream(word, streams[word], rest)
                except Mismatch as error:
                    raise Mismatch(f"line {number}: {error}") from error
            elif word in ("exists", "missing"):
                if os.path.exists(os.path.join(self.folder, rest)) != (word == "exists"):
                    raise Mismatch(f"line {number}: {rest} {'is missing' if word == 'exists' else 'exists'}")
            else:
                raise ValueError(f"line {number}: unknown word '{word}'")
        for name, text in streams.items():
            exact = [rest[3:] for _, word, rest in expected if word == name and rest.startswith("is ")]
            if exact and text.splitlines() != exact:
                raise Mismatch(f"{name} differs; expected\n  " + "\n  ".join(exact))

    def run_all(self):
        at, runs = 0, 0
        while at < len(self.lines):
            word, _, rest = self.lines[at].partition(" ")
            at += 1
            if not word or word.startswith("#"):
                continue
            if word == "needs":
                needed = "libkscout_cuda.so" if rest == "cuda" else f"kscout-{rest}"
                if not os.path.exists(os.path.join(self.programs, needed)):
                    print(f"skipped: {needed} was not built")
                    return SKIPPED if runs == 0 else 0
            elif word == "file":
                at = self.write_file(rest, at)
            elif word == "env":
                name, _, value = rest.partition("=")
                self.env[name] = value
            elif word == "timeout":
                self.timeout = float(rest)
            elif word == "run":
                number, expected = at, None
                expected, at = self.expectations(at)
                runs += 1
                try:
                    done = self.run(rest)
                except subprocess.TimeoutExpired:
                    print(f"line {number}: run {rest}\n  still running after {self.timeout} s")
                    return 1
                try:
                    self.check(done, expected)
                except Mismatch as error:
                    print(f"line {number}: run {rest}\n  {error}\n--- exit {done.returncode}; stdout\n{done.stdout}"
                          f"--- stderr\n{done.stderr}---")
                    return 1
            else:
                raise ValueError(f"line {at}: '{word}' stands before any run")
        if runs == 0:
            raise ValueError("the case runs nothing")
        print(f"{runs} runs as expected")
        return 0


def main():
    case = Case(sys.argv[1], sys.argv[2])
    try:
        return case.run_all()
    finally:
        subprocess.run(["chmod", "-R", "u+w", case.folder], check=False)
        subprocess.run(["rm", "-rf", case.folder], check=False)


if __name__ == "__main__":
    sys.exit(main())
