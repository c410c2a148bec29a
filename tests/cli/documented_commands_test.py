#!/usr/bin/env python3
"""The check of documented commands notices each kind of wrong command: documented_commands_test.py PROGRAM."""
import contextlib
import io
import os
import stat
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True

import documented_commands

CHECK = documented_commands.__file__
PATH = sys.argv.pop() if len(sys.argv) > 1 else ""
PROGRAM = documented_commands.Program(os.path.abspath(PATH))  # one for all tests: it keeps what the program printed


def check(text, name="page.md"):
    """Exit code and output of the check of one file."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code = documented_commands.check(PROGRAM, [path])
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue())


def start_check(program, *arguments):
    """The check as a program."""
    return subprocess.run([sys.executable, CHECK, program, *arguments], capture_output=True, text=True, check=False)


class DocumentedCommands(unittest.TestCase):
    def accepts(self, text, name="page.md"):
        done = check(text, name)
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}")

    def refuses(self, text, reasons, name="page.md"):
        """Every reason is told, and nothing else."""
        done = check(text, name)
        self.assertEqual(done.returncode, 1, f"{text}\n{done.stdout}")
        for why in reasons:
            self.assertIn(why, done.stdout)
        self.assertIn(f" {len(reasons)} wrong\n", done.stdout, done.stdout)

    def test_right_commands(self):
        lines = ("kscout run gemm:16x16x16", "$ kscout dataset head FILE   # a comment", "kscout problems llm --count N > p.txt",
                 "KSCOUT_LOG=stderr kscout predict gemm:1x1x1 --top 1", "taskset -c 0,1 kscout hardware",
                 "kscout problems random; kscout problems llm [--count 3] ...", "kscout train --data a.parquet \\\n        --out m",
                 "not a command: kscout --nothing")
        self.accepts("".join(f"Text.\n\n    {line}\n\n```\n{line}\n```\n" for line in lines))

    def test_wrong_commands(self):
        wrong = {"kscout predct gemm:1x1x1": "unknown verb 'predct'", "kscout problems llm --max-flops 1": "--max-flops",
                 "kscout train --data a.parquet": "--out is required", "kscout sweep --dtype bf17": "bf17",
                 "kscout train --data a --out b --targets rank,speed": "speed", "kscout dataset hed FILE": "hed",
                 "kscout hardware what was detected": "what", "kscout predict --top none": "none",
                 "kscout kernels --count --list": "excludes", "kscout run 'gemm": "unbalanced quotes",
                 "kscout hardware; kscout sweep --nothing": "--nothing", "kscout train --data a \\\n      --wrong": "--wrong",
                 "S=\"--worse 1\"\n    kscout problems llm $S": "--worse"}
        self.refuses("".join(f"Text.\n\n    {line}\n\n" for line in wrong), wrong.values())
        self.refuses("".join(f"```\n{line}\n```\n" for line in wrong), wrong.values())

    def test_the_line_is_named(self):
        done = check("Text.\n\n    kscout hardware\n    kscout hardware --wrong\n")
        self.assertRegex(done.stdout, r"page\.md:4: kscout hardware --wrong\n")

    def test_spans_may_leave_out_what_is_required(self):
        self.accepts("Say `kscout train` or `kscout\ntrain --folds 3`, `kscout dataset`, `kscout import --from ck-log`, `kscout run --db`.\n")
        self.refuses("Say `kscout run --wrong --fallback`, or `kscout\ntrain --fold 3`.\n\n"
                     "| a | `kscout evaluate --lowest-mean 3` |\n\nOf `sweep --remeasrue DIR`.\n\n"
                     "A list:\n\n* is `kscout dataset mrege`,\n    and this is not code: kscout nothing\n",
                     ["page.md:1: kscout run --wrong", "--fold", "page.md:4: kscout evaluate --lowest-mean", "--remeasrue", "mrege"])

    def test_spans_of_options(self):
        self.refuses("`kscout hardware` has `--format json`, but\nno `--fromat json`.\n", ["page.md:2: no verb has an option --fromat"])

    def test_other_files(self):
        self.accepts('"$kscout" train --data "$1" --out "$2" "$@"\n', "round.sh")
        self.refuses('kscout=${KSCOUT:-kscout}\n"$kscout" train --data "$1"\n', ["round.sh:2: kscout train"], "round.sh")
        self.refuses("/// See `kscout kernels\n/// --remeasrue`.\nint x;\n", ["file.h:1: kscout kernels --remeasrue"], "file.h")
        self.refuses("# See `kscout kernels --remeasrue`.\n", ["file.toml:1: kscout kernels --remeasrue"], "file.toml")

    def test_a_page_without_wrong_commands_says_how_many_it_has(self):
        self.assertRegex(check("    kscout hardware\n").stdout, r"^\d+ commands, 0 options, 0 wrong\n$")

    def test_the_exit_code_is_that_of_the_check(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, code in (("    kscout hardware\n", 0), ("    kscout hardware --wrong\n", 1)):
                page = os.path.join(folder, "page.md")
                with open(page, "w", encoding="utf-8") as file:
                    file.write(text)
                done = start_check(PATH, page)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_a_program_that_executes_is_not_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "kscout")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho executed\n")
            os.chmod(program, stat.S_IRWXU)
            done = start_check(program)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("KSCOUT_PARSE_ONLY", done.stderr)


if __name__ == "__main__":
    unittest.main()
