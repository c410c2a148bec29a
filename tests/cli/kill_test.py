#!/usr/bin/env python3
"""kill_test.py FOLDER_OF_PROGRAMS: kill -9 during a sweep with real kernels loses no row, and the same command measures the rest
only. For every operation of provider native."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KSCOUT = os.path.join(os.path.abspath(sys.argv[1]), "kscout")
SHAPES = {
    "gemm": ["gemm:65x127x33", "gemm:16x256x256", "gemm:300x20x70:fp32:rrr", "gemm:7x7x500"],
    "conv": [":1x16x14x14:24x3x3:pad=1", ":2x12x9x9:12x3x3:g=12:pad=1", ":1x32x10x10:16x1x1", ":1x3x20x20:8x5x5:pad=2:stride=2",
             ":1x8x4x6x6:8x3x3x3:fp32:ndhwgc:pad=1"],
}
OPS = ("gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_weight")
MOMENTS = 4


class Killed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kscout_kill_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def kscout(self, *words):
        done = subprocess.run([KSCOUT, *words, "--format", "json"], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def sweep(self, op, out):
        with open(os.path.join(self.folder, "shapes.txt"), "w", encoding="utf-8") as file:
            file.writelines(shape + "\n" if op == "gemm" else op + shape + "\n" for shape in SHAPES["gemm" if op == "gemm" else "conv"])
        return ["sweep", "--problems", "shapes.txt", "--rules", "tiny", "--out", out]

    def journal(self, out):
        try:
            with open(os.path.join(self.folder, out, "journal.log"), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def kill_at(self, command, out, size):
        """Starts the command and kills it when its journal has this size; whether it was still running."""
        process = subprocess.Popen([KSCOUT, *command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while process.poll() is None and len(self.journal(out)) < size and time.monotonic() < end:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL

    def check(self, op):
        whole = self.kscout(*self.sweep(op, "whole"))
        size = len(self.journal("whole"))
        self.assertEqual((whole["ended"], whole["rows"]), ("done", whole["pairs"]))
        killed = with_rows = 0
        for moment in range(MOMENTS):
            out = f"out{moment}"
            command = self.sweep(op, out)
            killed += self.kill_at(command, out, size * (2 * moment + 1) // (2 * MOMENTS))
            kept, before = self.kscout("sweep", "--status", out), self.journal(out)
            kept_rows = kept["rows"] + kept["contender_rows"]
            with_rows += kept_rows > 0
            after = self.kscout(*command)
            self.assertEqual((after["ended"], after["rows"], after["problems_done"]), ("done", whole["pairs"], whole["problems"]))
            self.assertEqual(after["rows"] + after["contender_rows"], kept_rows + after["session"]["rows"], "measured the rest only")
            same = os.path.commonprefix([before, self.journal(out)])
            self.assertLess(len(before) - len(same), 4096, "only a record that was being written may go")
            self.assertGreater(after["contender_rows"], 0)
        self.assertGreater(killed, 0, "every sweep had ended before it could be killed")
        self.assertGreater(with_rows, 0)


for one in OPS:
    setattr(Killed, f"test_{one}", lambda self, op=one: self.check(op))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
