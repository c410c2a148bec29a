#!/usr/bin/env python3
"""kscout exec on programs that call stand-ins for cuBLAS, cuBLASLt and cuDNN.

    exec_test.py FOLDER_OF_PROGRAMS FOLDER_OF_TEST_PROGRAMS [TEST...]
"""
import csv
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS, TESTS = (os.path.abspath(path) for path in sys.argv[1:3])
KSCOUT = os.path.join(PROGRAMS, "kscout")
LINKED, OPENED, PLAIN, STATIC = (os.path.join(TESTS, "preload_" + name) for name in ("linked", "opened", "plain", "static"))
PRELOAD = os.path.join(PROGRAMS, "libkscout_preload.so")


def rows_of(file):
    """The calls of each problem, read from the file as it is."""
    calls = {}
    with open(file, encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            calls[row["problem"]] = calls.get(row["problem"], 0) + int(row["calls"])
    return calls


class ExecTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kscout_exec_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("KSCOUT_", "LD_PRELOAD"))}
        self.env.update(HOME=self.folder, LC_ALL="C")
        self.record, self.report = (os.path.join(self.folder, name) for name in ("shapes.csv", "report.txt"))

    def start(self, *command, env=None, **how):
        return subprocess.run(command, cwd=self.folder, env={**self.env, **(env or {})}, text=True, capture_output=True,
                              timeout=120, check=False, **how)

    def exec(self, *command, **how):
        return self.start(KSCOUT, "exec", "--record", self.record, "--report", self.report, "--", *command, **how)

    def report_text(self):
        with open(self.report, encoding="utf-8") as file:
            return file.read()

    def lines(self):
        """The problems that the program reads from the record: one-line forms, equal ones once."""
        done = self.start(KSCOUT, "problems", "--file", self.record)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(done.stdout.split())

    def without_pid(self, text):
        return re.sub(r"pid \d+", "pid", text)

    # ---- recording

    def test_every_form_is_recorded_as_its_row_major_problem(self):
        for program in (LINKED, OPENED):
            done = self.exec(program, "all")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
            self.assertEqual(self.lines(), sorted([
                "gemm:7x5x3:bf16:rcr",
                "gemm:7x5x3:fp16:rrr",
                "gemm:7x5x3:fp32:crr",
                "gemm:7x5x3:tf32:ccr",
                "gemm:7x5x3:fp32:rcr:lda=6:ldb=4:ldc=8:accumulate=1",
                "gemm:7x9x3:fp32:rcr",
                "gemm:6x4x8:fp32:rrr:batch=3",
                "gemm:6x4x8:fp32:rcr:batch=2",
                "gemm:2x2x2:fp32:rrr:weight=3",
                "gemm:2x2x2:tf32:rrr",
            ]))
            report = self.report_text()
            for words in ("cublasGemmEx +6 calls", "cublasGemmEx_64 +1 calls", "cublasGemmStridedBatchedEx +2 calls",
                          "cublasSgemm_v2 +4 calls", "cublasSetWorkspace_v2 +1 calls", "12 products of 10 problems",
                          "1 not read: types", "1 not read: a batch whose items share"):
                self.assertRegex(report, words)
            self.assertNotIn("cublasLtMatmul", report, "calls that cuBLAS makes itself are not counted")

    def test_calls_of_cublaslt_are_read_from_descriptors(self):
        for program in (LINKED, OPENED):
            done = self.exec(program, "matmul")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.lines(), ["gemm:16x32x64:bf16:rcr:ldc=40:epilogue=bias_gelu:weight=2"])
            report = self.report_text()
            for words in ("cublasLtMatmul +5 calls", "cublasLtMatmulAlgoGetHeuristic +1 calls", "cudnnBackendExecute +1 calls",
                          "2 products of 1 problems", "1 not read: an epilogue", "2 not read: a matrix that is not column-major"):
                self.assertRegex(report, words)

    def test_convolutions_are_read_from_plans(self):
        for program in (LINKED, OPENED):
            done = self.exec(program, "convolve")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.lines(), sorted([
                "conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad_h=2:pad_w=1:g=2:dilation_h=2:weight=2",
                "conv_bwd_data:2x4x8x8:16x3x3:tf32:ngchw:stride=2:pad=1",
                "conv_bwd_weight:2x6x1x8x8:6x1x3x3:fp16:ndhwgc:pad_h=1:pad_w=1:g=6:weight=2",
            ]))
            report = self.report_text()
            for words in ("cudnnBackendExecute +11 calls", "5 convolutions of 3 problems", "1 not read: a plan of cuDNN",
                          "1 not read: a convolution whose tensors", "1 not read: sizes", "1 not read: types",
                          "2 not read: descriptors"):
                self.assertRegex(report, words)
            self.assertNotIn(" products of", report)

    def test_a_record_of_products_and_convolutions_is_one_file_of_problems(self):
        self.assertEqual(self.exec(LINKED, "all", "convolve").returncode, 0)
        self.assertEqual(len(self.lines()), 10 + 3)
        describe = self.start(KSCOUT, "problems", "--file", self.record, "--describe")
        self.assertEqual(describe.returncode, 0, describe.stderr)
        self.assertRegex(describe.stdout, r"(?s)10 problems.*3 problems")
        for options in (["--format", "csv"], ["--op", "conv_fwd"], ["--count", "3"]):
            done = self.start(KSCOUT, "problems", "--file", self.record, *options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn("holds GEMMs and convolutions", done.stderr)

    def test_results_and_calls_are_those_of_the_program_alone(self):
        for program in (LINKED, OPENED):
            alone, under = self.start(program, "all", "matmul"), self.exec(program, "all", "matmul")
            self.assertEqual(self.without_pid(alone.stdout), self.without_pid(under.stdout))
            self.assertRegex(alone.stdout, r"done, checksum -?[1-9]\d*\.\d+, library calls 5, inner calls 14,")
            self.assertEqual((alone.returncode, under.returncode), (0, 0))

    def test_threads_lose_no_call(self):
        for program in (LINKED, OPENED):
            self.assertEqual(self.exec(program, "threads").returncode, 0)
            self.assertEqual(self.lines(), [f"gemm:1x1x{k}:fp32:rrr:lda=4:weight=2000" if k < 4 else
                                            "gemm:1x1x4:fp32:rrr:weight=2000" for k in (1, 2, 3, 4)])
            self.assertIn("8000 products of 4 problems", self.report_text())

    def test_children_append_rows_of_their_own(self):
        self.assertEqual(self.exec(OPENED, "fork").returncode, 0)
        with open(self.record, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1 + 22)
        self.assertEqual(self.lines(), sorted(["gemm:1x1x11:fp32:rrr:weight=40", "gemm:1x1x9:fp32:rrr",
                                               "gemm:1x1x1:fp32:rrr:lda=4:weight=1000"]))
        self.assertEqual(self.report_text().count("kscout exec: process"), 21)

    def test_several_programs_share_the_files(self):
        done = self.exec("/bin/sh", "-c", f"{LINKED} threads & {OPENED} threads & {LINKED} all & wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(rows_of(self.record).values()), 16012)
        self.assertEqual(self.report_text().count("kscout exec: process"), 4, self.report_text())  # the shell, too

    def test_a_child_that_shares_the_memory_ends_nothing(self):
        self.assertEqual(self.exec(LINKED, "vfork").returncode, 0)
        self.assertEqual(self.lines(), ["gemm:1x1x9:fp32:rrr:weight=2"])
        self.assertEqual(self.report_text().count("kscout exec: process"), 1)

    def test_every_end_writes_what_was_counted(self):
        for word, status in {"exit": 31, "_exit": 32, "_Exit": 33, "quick_exit": 34}.items():
            done = self.exec(OPENED, "threads", word)
            self.assertEqual(done.returncode, status)
            self.assertEqual(sum(rows_of(self.record).values()), 8000, word)
            self.assertIn("8000 products of 4 problems", self.report_text())

    def test_a_killed_process_leaves_all_problems_and_most_calls(self):
        done = self.exec(OPENED, "threads", "kill")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        calls = rows_of(self.record)
        self.assertEqual(len(calls), 4)
        self.assertGreaterEqual(sum(calls.values()), 8000 - 4096)

    def test_a_program_may_change_its_folder_and_close_all_files(self):
        done = self.start(KSCOUT, "exec", "--record", "shapes.csv", "--report", "report.txt", "--", OPENED, "chdir", "all",
                          "close", "threads")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(rows_of(self.record).values()), 8012)
        self.assertIn("8012 products", self.report_text())

    def test_a_record_that_somebody_removes_is_written_again(self):
        done = self.exec("/bin/sh", "-c", f"{LINKED} all; rm {self.record}; exec {LINKED} all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(rows_of(self.record).values()), 12)

    def test_a_record_that_cannot_be_written_is_reported_once(self):
        done = self.exec("/bin/sh", "-c", f"rm {self.record}; mkdir {self.record}; {LINKED} all")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("cannot be written"), 1, done.stderr)
        self.assertIn("12 products of 10 problems", self.report_text())

    def test_the_library_is_usable_by_hand(self):
        env = {"LD_PRELOAD": PRELOAD, "KSCOUT_PRELOAD_RECORD": "shapes.csv", "KSCOUT_PRELOAD_REPORT": "-"}
        for runs in (1, 2):
            done = self.start(OPENED, "all", env=env)
            self.assertEqual(done.returncode, 0)
            self.assertIn("12 products of 10 problems", done.stderr)
            self.assertEqual(sum(rows_of(self.record).values()), 12 * runs)  # it appends
        done = self.start(OPENED, "all", env={"LD_PRELOAD": PRELOAD})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_the_core_calls_pass_on(self):
        library = shutil.copy(PRELOAD, self.folder)
        alone = self.start(LINKED, "all")
        under = self.start(LINKED, "all", env={"LD_PRELOAD": library, "KSCOUT_PRELOAD_RECORD": self.record})
        self.assertEqual(self.without_pid(alone.stdout), self.without_pid(under.stdout))
        self.assertEqual(under.returncode, 0)
        self.assertEqual(len(under.stderr.splitlines()), 1, under.stderr)
        self.assertIn("libkscout_preload_core.so", under.stderr)
        self.assertFalse(os.path.exists(self.record))

    # ---- the program

    def test_a_program_without_blas_runs_unchanged(self):
        done = self.exec(PLAIN, "a b", "", "--report", "--", "-x", env={"LD_PRELOAD": ""})
        self.assertEqual(done.stdout, f"[a b][][--report][--][-x] {PRELOAD}\n")
        self.assertEqual((done.returncode, done.stderr), (6, ""))
        self.assertEqual(self.report_text().count("no call of a BLAS, cuBLAS, cuBLASLt or cuDNN was seen"), 1)
        self.assertEqual(rows_of(self.record), {})

    def test_a_program_without_blas_opens_no_core(self):
        done = self.exec("/bin/cat", "/proc/self/maps")
        self.assertIn("/libkscout_preload.so\n", done.stdout)
        for name in ("libkscout_preload_core", "libstdc++", "libcublas", "libcuda"):
            self.assertNotIn(name, done.stdout)

    def test_arguments_may_be_any_bytes(self):
        done = subprocess.run([KSCOUT, "exec", "--record", self.record, "--", PLAIN, b"\xff\xfe"], cwd=self.folder,
                              env=self.env, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.stdout, b"[\xff\xfe] " + PRELOAD.encode() + b"\n", done.stderr)

    def test_ld_preload_stays_behind_ours(self):
        other = os.path.join(TESTS, "libcudnn.so.12")
        done = self.exec(PLAIN, env={"LD_PRELOAD": other})
        self.assertEqual(done.stdout, f" {PRELOAD}:{other}\n")

    def test_process_id_and_signals_are_the_programs(self):
        with subprocess.Popen([KSCOUT, "exec", "--report", self.report, "--", OPENED, "all"], env=self.env, text=True,
                              stdout=subprocess.PIPE) as started:
            self.assertIn(f"pid {started.pid}\n", started.stdout.read())
        with subprocess.Popen([KSCOUT, "exec", "--report", self.report, "--", "sleep", "60"], env=self.env) as started:
            while os.path.basename(os.readlink(f"/proc/{started.pid}/exe")) == "kscout":
                time.sleep(0.01)
            time.sleep(0.2)  # the loader's work
            started.send_signal(signal.SIGTERM)
            self.assertEqual(started.wait(20), -signal.SIGTERM)

    def test_programs_on_path_and_scripts_are_found(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {LINKED} all\n")
        os.chmod(script, 0o755)
        done = self.exec("script", env={"PATH": self.folder + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(rows_of(self.record).values()), 12)

    def test_threads_of_openblas_wait_briefly_where_products_are_served(self):
        show = ("--", "/bin/sh", "-c", "echo $OPENBLAS_THREAD_TIMEOUT")
        self.env.pop("OPENBLAS_THREAD_TIMEOUT", None)
        for options, env, value in (((), {}, "18"), ((), {"OPENBLAS_THREAD_TIMEOUT": "26"}, "26"),
                                    (("--no-serve", "--record", self.record), {}, "")):
            self.assertEqual(self.start(KSCOUT, "exec", *options, *show, env=env).stdout, value + "\n")

    # ---- errors

    def refused(self, code, words, *command, **how):
        done = self.exec(*command, **how)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for text in words:
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.record), "nothing is written for a program that does not start")

    def changed(self, name, change):
        """A copy of the plain program with some bytes changed."""
        file = os.path.join(self.folder, name)
        with open(PLAIN, "rb") as old, open(file, "wb") as new:
            content = bytearray(old.read())
            change(content)
            new.write(content)
        os.chmod(file, 0o755)
        return file

    def test_programs_that_take_no_library_are_refused(self):
        self.refused(3, [STATIC, "statically"], STATIC)
        script = os.path.join(self.folder, "static_script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#! {STATIC} -x\n")
        os.chmod(script, 0o755)
        self.refused(3, [STATIC, "statically"], script)

        def class_32(content):
            content[4] = 1

        def machine(content):
            content[18:20] = (243).to_bytes(2, "little")

        def loader(content):
            at = content.index(b"/lib64/ld-linux-x86-64.so.2\0")
            content[at:at + 26] = b"/lib/ld-musl-x86_64.so.1\0\0"

        file = self.changed("small", class_32)
        self.refused(3, [file, "32-bit", "64-bit build"], file)
        file = self.changed("foreign", machine)
        self.refused(3, [file, "another processor", "243"], file)
        file = self.changed("musl", loader)
        self.refused(3, [file, "another C library", "ld-musl"], file)

    def test_setuid_programs_are_refused(self):
        file = shutil.copy(PLAIN, self.folder)
        if os.geteuid() == 0:
            os.chown(file, 65534, 0)
        os.chmod(file, 0o755 | stat.S_ISUID)
        if os.geteuid() == 0:
            self.refused(3, [file, "setuid", "without kscout exec"], file)
        else:  # one's own file gains nothing
            self.assertEqual(self.exec(file).returncode, 1)

    def test_programs_that_are_not_there_are_refused(self):
        self.refused(4, ["'no_such_program'", "PATH"], "no_such_program")
        self.refused(4, ["./none", "no such program"], "./none")
        self.refused(4, [self.folder, "folder"], self.folder)
        with open(os.path.join(self.folder, "text"), "w", encoding="utf-8") as file:
            file.write("#!/no/such/interpreter\n")
        self.refused(3, ["./text", "chmod +x"], "./text")
        os.chmod(os.path.join(self.folder, "text"), 0o755)
        self.refused(4, ["./text", "/no/such/interpreter"], "./text")

    def test_wrong_options_are_refused(self):
        def options(*words):
            done = self.start(KSCOUT, "exec", *words, "--", PLAIN)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            return done.stderr

        self.assertIn("--record", options("--no-serve"))
        self.assertIn("--refine has no effect with --no-serve", options("--no-serve", "--refine", "--record", "x"))
        self.env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        self.assertIn("CUBLAS_WORKSPACE_CONFIG=:4096:8 asks for equal results", options("--refine"))
        del self.env["CUBLAS_WORKSPACE_CONFIG"]
        self.assertIn("--min-gain -1", options("--min-gain", "-1"))
        self.assertIn("name a file", options("--record", "-"))
        self.assertIn("regular file", options("--record", "/dev/null"))
        self.assertIn("is a folder", options("--record", "."))
        self.assertIn("both name", options("--record", "x", "--report", "./x"))
        done = self.start(KSCOUT, "exec", "--record", self.record)
        self.assertEqual(done.returncode, 2)
        self.assertIn("program is required", done.stderr)
        done = self.start(KSCOUT, "exec", "--record", "none/shapes.csv", "--", PLAIN)
        self.assertEqual(done.returncode, 4)
        self.assertIn("none/shapes.csv", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
