#!/usr/bin/env python3
"""kscout exec on products of a BLAS: that of NumPy's wheel, those of a Linux distribution, and a stand-in.

    blas_test.py FOLDER_OF_PROGRAMS STAND_IN MODELS [TEST...]

Runs with the Python that has NumPy. Exits with 77 where all of these tests are skipped.
"""
import contextlib
import csv
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import numpy

PROGRAMS, STAND_IN, MODELS = (os.path.abspath(path) for path in sys.argv[1:4])
KSCOUT = os.path.join(PROGRAMS, "kscout")
PRODUCTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blas_products.py")
OWN = glob.glob(os.path.join(os.path.dirname(numpy.__file__), os.pardir, "numpy.libs", "libscipy_openblas64_*"))
WHEEL = "scipy_cblas_sgemm64_"
SYSTEM_PYTHON = "/usr/bin/python3"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kscout_blas_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.report = os.path.join(self.folder, "report.txt")
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("KSCOUT_", "LD_PRELOAD", "OPENBLAS_", "OMP_"))}
        self.env.update(HOME=self.folder, XDG_DATA_HOME=self.folder, LC_ALL="C", KSCOUT_MODEL_PATH=MODELS)

    def run_exec(self, function, word, count=0, options=(), python=sys.executable, library="", **env):
        if os.path.exists(self.report):
            os.remove(self.report)
        library = library or (OWN[0] if function == WHEEL else STAND_IN)
        return subprocess.run([KSCOUT, "exec", "--report", self.report, *options, "--", python, "-W", "error", PRODUCTS,
                               function, library, word, str(count)],
                              env={**self.env, **env}, text=True, capture_output=True, timeout=200, check=False)

    def exec(self, function, word, count=0, **how):
        """The reports of all processes, and how many products were served."""
        done = self.run_exec(function, word, count, **how)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertTrue(done.stdout.endswith("agree\n"), done.stdout)
        with open(self.report, encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("our code failed", text)
        self.output = done.stdout
        return text, sum(int(count) for count in re.findall(r"\n  (\d+) served on the CPU\n", text))

    def check_children(self, function, word, of_parent, **how):
        text, served = self.exec(function, word, 40, **how)
        counts = sorted(int(count) for count in re.findall(rf"\n  {function} +(\d+) calls", text))
        self.assertEqual(counts, [40] * 6 + [of_parent])
        self.assertGreater(served, 7 * 4)


@unittest.skipUnless(OWN, "NumPy is not the wheel with its own OpenBLAS")
class WheelTest(Case):
    def test_its_library_agrees(self):
        text, served = self.exec(WHEEL, "random", 2000)
        self.assertRegex(text, rf"{WHEEL} +2000 calls\n  2000 products of ")
        self.assertGreater(served, 500)
        self.assertRegex(text, r"\n  \d+ passed on: small products\n")
        self.assertNotIn("no model knows", text)

    def test_numpy_itself_is_served(self):
        _, served = self.exec(WHEEL, "numpy", 2000)
        self.assertGreater(served, 200)

    def test_threads_compute_side_by_side(self):
        text, served = self.exec(WHEEL, "threads", 60)
        self.assertRegex(text, rf"\n  {WHEEL} +480 calls\n")
        self.assertGreater(served, 50)

    def test_children_are_served(self):
        self.check_children(WHEEL, "fork_idle", 400)


class SystemTest(Case):
    """Debian's NumPy calls the libblas.so.3 that the loader finds: Netlib's reference, or OpenBLAS."""

    def check(self, folder, package):
        found = glob.glob(f"/usr/lib/*-linux-gnu/{folder}/libblas.so.3")
        numpy_is = subprocess.run([SYSTEM_PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode == 0
        for has, name in ((numpy_is, "python3-numpy"), (found, package)):
            if not has:
                self.skipTest(f"package {name} is not installed")
        how = {"python": SYSTEM_PYTHON, "library": found[0], "LD_LIBRARY_PATH": os.path.dirname(found[0])}
        _, served = self.exec("cblas_sgemm", "numpy", 2000, **how)
        self.assertGreater(served, 200)
        for function in ("cblas_sgemm", "sgemm_"):
            text, served = self.exec(function, "random", 1000, **how)
            self.assertRegex(text, rf"\n  {function} +1000 calls\n")
            self.assertGreater(served, 120)
        text, served = self.exec("cblas_sgemm", "threads", 60, **how)
        self.assertRegex(text, r"\n  cblas_sgemm +480 calls\n")
        self.assertGreater(served, 50)
        self.check_children("cblas_sgemm", "fork_idle", 400, **how)

    def test_reference(self):
        self.check("blas", "libblas3")

    def test_openblas(self):
        self.check("openblas-pthread", "libopenblas0-pthread")


class StandInTest(Case):
    def test_the_functions_of_a_system_agree(self):
        for function in ("cblas_sgemm", "sgemm_"):
            text, served = self.exec(function, "random", 300)
            self.assertRegex(text, rf"\n  {function} +300 calls\n")
            self.assertGreater(served, 40)
            self.assertIn(f"original calls {600 - served}\n", self.output, "what is not served reaches the original, once")

    def test_the_record_has_times(self):
        record = os.path.join(self.folder, "shapes.csv")
        for options in ([], ["--no-serve"]):
            self.exec("sgemm_", "threads", 60, options=["--record", record, *options])
            with open(record, encoding="utf-8", newline="") as text:
                rows = list(csv.DictReader(text))
            self.assertEqual(sum(int(row["calls"]) for row in rows), 480)
            for row in rows:
                self.assertGreater(float(row["total_us"]), 0, row)

    def test_wrong_and_empty_products_are_the_originals(self):
        for function in ("cblas_sgemm", "sgemm_"):
            text, served = self.exec(function, "odd")
            self.assertEqual(served, 0)
            self.assertRegex(text, "1 passed on: alpha is 0")
            self.assertRegex(text, "3 not read: sizes")

    def test_threads_compute_side_by_side(self):
        text, served = self.exec("sgemm_", "threads", 60)
        self.assertRegex(text, r"\n  sgemm_ +480 calls\n")
        self.assertGreater(served, 50)

    def test_children_are_served(self):
        self.check_children("sgemm_", "fork", 160)

    def test_a_fork_waits_until_the_core_is_open(self):
        core = os.path.join(os.path.dirname(STAND_IN), "preload_slow_core.so")
        # Python 3.12 and later warn of a fork with threads.
        done = subprocess.run([sys.executable, "-W", "ignore", PRODUCTS, "sgemm_", STAND_IN, "fork_opening"], text=True, capture_output=True,
                              timeout=60, check=False,
                              env={**self.env, "LD_PRELOAD": os.path.join(PROGRAMS, "libkscout_preload.so"),
                                   "KSCOUT_PRELOAD_CORE": core, "KSCOUT_PRELOAD_SERVE": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_the_threads_of_the_library_bound_ours(self):
        bound = [(1, {}), (64, {"OPENBLAS_NUM_THREADS": "1"}), (64, {"OMP_NUM_THREADS": "1"})]
        for count, env in [*bound, (64, {})]:
            text, served = self.exec("sgemm_", "equal", count, **env)
            self.assertEqual(served, 20, text)
            more = int(len(os.sched_getaffinity(0)) > 1 and not env and count > 1)
            self.assertRegex(self.output, r"new threads [1-9]" if more else "new threads 0\n")

    def test_the_threads_of_mkl_bound_ours(self):
        self.exec("sgemm_", "equal", 1, library=os.path.join(os.path.dirname(STAND_IN), "libmkl.so"))
        self.assertIn("new threads 0\n", self.output)

    def test_refine_keeps_the_faster(self):
        text, served = self.exec("sgemm_", "equal", options=["--refine"], STAND_IN_SLEEP_US="50000")
        self.assertEqual(served, 14)
        self.assertIn("1 problems timed by --refine: 0 of them keep the library's kernel, 0 are not finished", text)
        self.assertIn("6 passed on: timed for --refine", text)

    def test_later_processes_know_what_was_timed(self):
        self.exec("sgemm_", "equal")
        database = os.path.join(self.folder, "kscout", "decisions.sqlite")
        subprocess.run([KSCOUT, "exec", "--refine", "--", "true"], env=self.env, timeout=60, check=True)
        self.assertFalse(os.path.exists(database), "nothing was timed")
        self.exec("sgemm_", "equal", options=["--refine"], STAND_IN_SLEEP_US="50000")
        with contextlib.closing(sqlite3.connect(database)) as stored:
            [(config, library, threads)] = stored.execute("SELECT config, backend, limits FROM decision")
            self.assertEqual(library, os.path.basename(STAND_IN))
            self.assertTrue(config.startswith("native_gemm_fp32_") and threads.startswith("threads="), (config, threads))
            for options in ([], ["--refine"]):
                text, served = self.exec("sgemm_", "equal", options=options)
                self.assertEqual(served, 20, text)
                self.assertNotIn("timed", text)
            with stored:
                stored.execute("UPDATE decision SET config = 'library'")
            for options in ([], ["--refine"]):
                text, served = self.exec("sgemm_", "equal", options=options)
                self.assertEqual(served, 0)
                self.assertIn("20 passed on: the library's kernel was faster when both were timed", text)
            self.assertEqual(self.exec("sgemm_", "equal", KSCOUT_DISABLE="db")[1], 20)
            with stored:
                stored.execute("UPDATE decision SET backend = 'another library'")
            self.assertEqual(self.exec("sgemm_", "equal")[1], 20)

    def test_a_damaged_decision_file_is_said_and_not_used(self):
        database = os.path.join(self.folder, "decisions.sqlite")
        with open(database, "w", encoding="utf-8") as file:
            file.write("no database")
        said = self.run_exec("sgemm_", "equal", KSCOUT_DB=database).stderr
        self.assertIn("earlier timings are not used: ", said)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0], *sys.argv[4:]], exit=False).result
    for test, why in result.skipped:
        print(f"NOT TESTED: {test.id()}: {why}")
    sys.exit(77 if result.wasSuccessful() and len(result.skipped) == result.testsRun else not result.wasSuccessful())
