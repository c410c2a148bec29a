#!/usr/bin/env python3
"""The runner of CLI cases notices each kind of difference."""
import os
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_case.py")


def run(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.test")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run([sys.executable, RUNNER, folder, path], capture_output=True, text=True, check=False).returncode


SAY = """run sh -c 'echo one; echo {\\"a\\": [5]} >&2; exit 3'\n"""


class Runner(unittest.TestCase):
    def test_accepts_what_is_so(self):
        for line in ("stdout is one", "stdout has on", "stdout lacks two", "stdout matches ^o.e$", "stdout only o.e", "stdout lines 1", "stderr json a.0 5"):
            self.assertEqual(run(f"{SAY}exit 3\n{line}\n"), 0, line)

    def test_refuses_what_is_not(self):
        for line in ("stdout is two", "stdout is one\nstdout is two", "stdout has two", "stdout lacks one", "stdout empty",
                     "stdout matches ^one.$", "stdout only on", "stderr only a.*", "stdout lines 0", "stderr json a.0 6", "stderr json b 5", "stdout json", "exists x", "sdtout empty"):
            self.assertNotEqual(run(f"{SAY}exit 3\n{line}\n"), 0, line)
        self.assertNotEqual(run(f"{SAY}exit 4\n"), 0)
        self.assertNotEqual(run(SAY), 0, "no exit line expects 0")

    def test_a_case_must_run_something(self):
        self.assertNotEqual(run("# nothing\n"), 0)

    def test_files_and_environment(self):
        self.assertEqual(run("file d/f\n| x\n|\n| y\nenv A=b\nrun sh -c 'cat d/f; echo $A'\nstdout is x\nstdout is \nstdout is y\nstdout is b\n"), 0)

    def test_a_hang_fails(self):
        self.assertNotEqual(run("timeout 0.2\nrun sleep 5\n"), 0)

    def test_missing_parts_skip(self):
        self.assertEqual(run("needs lab\nrun false\n"), 77)


if __name__ == "__main__":
    unittest.main()
