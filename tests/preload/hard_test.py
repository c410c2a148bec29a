#!/usr/bin/env python3
"""kscout exec under conditions that programs of a BLAS meet rarely: no memory, other rounding modes, threads that are cancelled or
have small stacks, integers of 64 bits, files that cannot be written.

    hard_test.py FOLDER_OF_PROGRAMS FOLDER_OF_TEST_PROGRAMS MODELS [TEST...]
"""
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS, TESTS, MODELS = (os.path.abspath(path) for path in sys.argv[1:4])
KSCOUT, CALLS = os.path.join(PROGRAMS, "kscout"), os.path.join(TESTS, "preload_hard_calls")
STAND_IN = os.path.join(TESTS, "libblas.so.12")
PLAIN = os.path.join(TESTS, "libpreload_plain_blas.so")
FAULTS = os.path.join(TESTS, "libpreload_faults.so")
CALLERS = [os.path.join(TESTS, f"libpreload_caller{bits}.so") for bits in ("", "64")]
OTHER_CALLER = os.path.join(TESTS, "libpreload_caller_mkl.so")  # the code of the first, with another BLAS
OPENMP_CALLER = os.path.join(TESTS, "libpreload_openmp_caller.so")


def library(pattern):
    found = glob.glob(pattern)
    return found[0] if found else None


SYSTEM = "/usr/lib/*-linux-gnu/"
WHEEL = library(os.path.join(sys.prefix, "lib/python3*/site-packages/numpy.libs/libscipy_openblas64_*"))
LIBRARIES = {  # name: file, functions, bits of an integer
    "stand-in": (STAND_IN, ["cblas_sgemm", "sgemm_"], 32),
    "Netlib": (library(SYSTEM + "blas/libblas.so.3"), ["cblas_sgemm", "sgemm_"], 32),
    "Netlib, 64 bits": (library(SYSTEM + "blas64/libblas64.so.3"), ["cblas_sgemm", "sgemm_"], 64),
    "OpenBLAS": (library(SYSTEM + "openblas-pthread/libblas.so.3"), ["cblas_sgemm", "sgemm_"], 32),
    "OpenBLAS, 64 bits": (library(SYSTEM + "openblas64-pthread/libblas64.so.3"), ["cblas_sgemm", "sgemm_"], 64),
    "NumPy's wheel": (WHEEL, ["scipy_cblas_sgemm64_"], 64),
}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kscout_hard_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.report = os.path.join(self.folder, "report.txt")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("KSCOUT_", "LD_PRELOAD"))}
        self.env.update(HOME=self.folder, XDG_DATA_HOME=self.folder, LC_ALL="C", KSCOUT_MODEL_PATH=MODELS)

    def exec(self, words, options=None, file=STAND_IN, function="cblas_sgemm", bits=32, stderr="", wait=30, env=(),
             standard_error=subprocess.PIPE):
        """The program's output; `words` are those behind its library."""
        options = ["--report", self.report] if options is None else options
        done = subprocess.run([KSCOUT, "exec", *options, "--", CALLS, file, function, str(bits), *map(str, words)], text=True,
                              stdout=subprocess.PIPE, stderr=standard_error, env={**self.env, **dict(env)}, timeout=wait,
                              check=False)
        self.assertEqual((done.returncode, done.stdout[-6:]), (0, "right\n"), (words, file, done.stdout, done.stderr))
        if done.stderr is not None:
            self.assertRegex(done.stderr, rf"\A{stderr}\Z")
        return done.stdout

    def counts(self):
        """Of each process: its calls, and those that are served, passed on or not read."""
        with open(self.report, encoding="utf-8") as file:
            text = file.read()
        processes = []
        for of in text.split("kscout exec: process ")[1:]:
            calls = sum(map(int, re.findall(r" +(\d+) calls\n", of)))
            served = sum(map(int, re.findall(r"\n  (\d+) served", of)))
            others = sum(map(int, re.findall(r"\n  (\d+) (?:passed on|not read)", of)))
            self.assertEqual(calls, served + others, of)
            processes.append((calls, served))
        return processes


class LibraryTest(Case):
    """Each of these is right, or as without kscout exec, with every BLAS that is installed."""

    def each(self, *words, least=0, libraries=tuple(LIBRARIES)):
        tried = 0
        for name in libraries:
            file, functions, bits = LIBRARIES[name]
            for function in functions if file else ():
                with self.subTest(library=name, function=function):
                    self.exec(words, file=file, function=function, bits=bits)
                    (calls, served), = self.counts()
                    self.assertGreaterEqual(served, least, calls)
                    os.remove(self.report)
                    tried += 1
        self.assertGreaterEqual(tried, 2 if "stand-in" in libraries else 0)

    def test_products_at_random(self):
        self.each("random", 100, least=20)

    def test_workers_have_the_callers_rounding(self):
        self.each("control", least=5)

    def test_a_thread_is_cancelled_between_products(self):
        self.each("cancel", least=21)

    def test_threads_and_fibers_with_small_stacks(self):
        self.each("small_stacks", least=1)
        self.each("fiber", least=1)

    def test_the_process_ends_with_its_last_thread(self):
        # Threads of OpenBLAS keep the process, with kscout exec and without.
        self.each("exit_main", least=2, libraries=["stand-in", "Netlib"])

    def test_integers_that_nobody_knows(self):
        self.exec(["random", 30], file=PLAIN)
        with open(self.report, encoding="utf-8") as file:
            self.assertRegex(file.read(), r"\n  90 not read: a BLAS of which nobody knows whether")

    WIDE = [name for name, (_, _, bits) in LIBRARIES.items() if bits == 64]

    def test_leading_dimensions_above_32_bits(self):
        self.each("wide", libraries=self.WIDE, least=0)

    def test_k_above_32_bits(self):
        self.each("deep", libraries=["Netlib, 64 bits"])

    def test_the_library_gets_a_wrong_size_as_it_came(self):
        for name, (file, functions, bits) in LIBRARIES.items():
            for function in functions if file else ():
                with self.subTest(library=name, function=function):
                    alone, under = (subprocess.run([*with_it, CALLS, file, function, str(bits), "negative"], env=self.env, text=True,
                                                   capture_output=True, timeout=30, check=False)
                                    for with_it in ([], [KSCOUT, "exec", "--"]))
                    self.assertEqual((under.returncode, under.stdout, under.stderr), (alone.returncode, alone.stdout, alone.stderr))

    def test_a_library_follows_another_at_its_address(self):
        self.assertIn("at one address\n", self.exec(["unload", CALLERS[0], OTHER_CALLER]))

    def test_each_library_calls_the_blas_with_which_it_is_linked(self):
        for first, second in (CALLERS, CALLERS[::-1]):
            seen = self.exec(["callers", second], file=first).split("\n", 1)[0]
            self.assertEqual(seen, "0 0 1 1 1 1 2 2 calls that the libraries have seen")


class TeamTest(Case):
    """Products run on the threads of the OpenMP runtime that the caller's library uses."""

    def test_no_threads_besides_the_team(self):
        self.exec(["team"], file=OPENMP_CALLER)
        child, (calls, served) = sorted(self.counts())
        self.assertEqual(child, (1, 0), "it passes on, because its threads are the parent's")
        self.assertEqual((calls, served), (3 * 10 + 1 + 2 + 3 + 20 + 2, calls))

    def test_the_runtime_is_loaded_after_a_product(self):
        self.exec(["late", CALLERS[0], OPENMP_CALLER])


class FaultTest(Case):
    """One allocation or thread start of ours fails, or all from one on: C is right, and the call is counted."""

    def check(self, options=(), **env):
        self.exec(["faults"], options=["--report", self.report, *options], env={"LD_PRELOAD": FAULTS, **env}, wait=280,
                  stderr=r"(kscout exec: (calls pass on and are not recorded, because .*|earlier timings are not used: .*out of memory)\n)*")
        processes = self.counts()
        self.assertGreater(len(processes), 100)
        self.assertGreater(sum(served for _, served in processes), len(processes) / 2)

    def test_each_once(self):
        self.check()

    def test_all_from_one_on(self):
        self.check(FAULTS_LAST="1")

    def test_during_refinement(self):
        self.check(options=["--refine"])
        with open(self.report, encoding="utf-8") as file:
            contests = re.findall(r" 15 calls\n(?: .*\n)*?.*timed by --refine: .* (\d+) are not finished", file.read())
        self.assertGreater(len(contests), 100)
        self.assertLessEqual(set(contests), {"0", "1"}, "the one of the last product, which is called once")


class OutputTest(Case):
    """A report or record that cannot be written changes neither the program's exit nor its signals."""

    LOST = r"(kscout exec: .*: cannot be written.*\n)"

    def test_a_limit_on_file_sizes(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # pylint: disable=unnecessary-lambda-assignment
        for option, what in (("--report", "REPORT"), ("--record", "RECORD")):
            file = os.path.join(self.folder, what)
            env = {"KSCOUT_PRELOAD_" + what: file, "KSCOUT_PRELOAD_SERVE": "1",
                   "LD_PRELOAD": os.path.join(PROGRAMS, "libkscout_preload.so")}
            done = subprocess.run([CALLS, STAND_IN, "cblas_sgemm", "32", "large"], env={**self.env, **env}, text=True,
                                  capture_output=True, timeout=60, check=False, preexec_fn=limit)
            self.assertEqual((done.returncode, done.stdout), (0, "right\n"), (option, done.stderr))
            self.assertRegex(done.stderr, rf"\A{self.LOST}\Z")
            self.assertIn("File too large", done.stderr)

    def test_kscout_itself_under_that_limit(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # pylint: disable=unnecessary-lambda-assignment
        done = subprocess.run([KSCOUT, "exec", "--record", os.path.join(self.folder, "record"), "--", "/bin/true"], env=self.env,
                              text=True, capture_output=True, timeout=60, check=False, preexec_fn=limit)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"\Akscout: .*record.*File too large\n\Z")

    def test_a_closed_pipe_as_standard_error(self):
        reads, writes = os.pipe()
        os.close(reads)
        self.exec(["large"], options=["--report", "-"], standard_error=writes)
        os.close(writes)

    def test_a_fifo_without_a_reader(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        self.exec(["large"], options=["--report", fifo], stderr=self.LOST, wait=20)

    def test_a_full_disk(self):
        self.exec(["large"], options=["--report", "/dev/full"], stderr=self.LOST)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
