#!/usr/bin/env python3
"""The guard of kscout exec, on a program that calls stand-ins for cuBLAS, cuBLASLt and the driver, which compute wrong results on
request (stand_in_product.c). MODULE is one of backend cuda whose GPU is the CPU (tests/libraries/host_gpu.cpp).

    guard_test.py FOLDER_OF_PROGRAMS FOLDER_OF_TEST_PROGRAMS MODULE [TEST...]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS, TESTS, MODULE = (os.path.abspath(path) for path in sys.argv[1:4])
KSCOUT, GUARDED = os.path.join(PROGRAMS, "kscout"), os.path.join(TESTS, "preload_guarded")
GEMMS = ["gemm", "gemm_fp16", "gemm_64", "gemm_fp32_result", "gemm_adds", "batched", "batched_64", "batched_fp32_result", "sgemm",
         "sgemm_batched", "gemm_gpu_factors"]
MATMULS = ["matmul", "matmul_fp16", "matmul_fp32_result", "matmul_bias", "matmul_own", "matmul_fp8", "matmul_gpu_factors"]
FAULTS = ["tail", "double", "element"]


class GuardTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kscout_guard_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.report, self.db = (os.path.join(self.folder, name) for name in ("report.txt", "decisions.sqlite"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("KSCOUT_", "LD_PRELOAD", "STAND_IN_"))}
        self.env.update(HOME=self.folder, XDG_DATA_HOME=self.folder, LC_ALL="C", STAND_IN_SIDE_MIB="64", KSCOUT_DB=self.db)

    def exec(self, *words, options=("--guard",), fault="tail", keep=False, program=GUARDED, **env):
        """Of each word: whether its result is right, and the calls of the library. The report's lines about the guard and standard
        error are kept. `keep`: with the verdicts of earlier calls."""
        for file in [self.report] + ([] if keep else [self.db]):
            if os.path.exists(file):
                os.remove(file)
        done = subprocess.run([KSCOUT, "exec", "--report", self.report, *options, "--", program, *words], cwd=self.folder,
                              env={**self.env, "STAND_IN_FAULT": fault, **env}, text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.said = done.stderr
        with open(self.report, encoding="utf-8") as report:
            self.reported = report.read()
        return [(word, int(calls)) for word, calls in re.findall(r"^\S+ (right|wrong) (\d+)$", done.stdout, re.M)]

    def counted(self, what):
        found = re.search(rf"^  (\d+) {what}", self.reported, re.M)
        return int(found.group(1)) if found else 0

    def test_each_function_and_type_is_guarded(self):
        for fault in FAULTS:
            for word in GEMMS + MATMULS:
                self.assertEqual(self.exec(word, options=["--no-serve"], fault=fault), [("wrong", 1)], f"{word} {fault}")
                (first, _), second = self.exec(word, word, fault=fault)
                self.assertEqual(first, "right", f"{word} {fault}: {self.said}")
                self.assertEqual(second, ("right", 1), f"{word} {fault}")
                self.assertEqual(self.counted("problems examined"), 1)
                self.assertEqual(self.counted("wrong results avoided"), 2)
                self.assertEqual(self.counted("calls not guarded"), 0)
                self.assertRegex(self.said, r"\Akscout exec: gemm:16x24x4096\S*: the library computes it wrong \(row .*\)\; another "
                                            r"of its algorithms computes it \(--report counts such calls\)\n\Z")

    def test_calls_that_are_right_reach_the_library_as_they_are(self):
        answers = self.exec(*GEMMS, *MATMULS, *GEMMS, *MATMULS, fault="")
        self.assertEqual([word for word, _ in answers], ["right"] * len(answers))
        self.assertEqual([calls for _, calls in answers[len(answers) // 2:]], [1] * (len(answers) // 2))
        self.assertEqual(self.counted("problems examined"), len(answers) // 2)
        self.assertNotIn("wrong results", self.reported)
        self.assertEqual(self.said, "")

    def test_the_same_algorithm_with_k_in_one_piece_is_tried_last(self):
        for word in ("gemm", "matmul"):
            self.assertEqual(self.exec(word, STAND_IN_WRONG="999")[0][0], "right")
            self.assertEqual(self.counted("wrong results avoided"), 1)

    def test_where_all_are_wrong_the_library_computes_and_it_is_said(self):
        answers = self.exec("gemm", "gemm", "matmul", STAND_IN_WRONG="1000")
        self.assertEqual([word for word, _ in answers], ["wrong"] * 3)
        self.assertEqual(answers[1][1], 1)
        self.assertEqual(self.counted("wrong results could not be avoided"), 3)
        self.assertEqual(len(re.findall("nothing else computes it right", self.said)), 2, "once for each problem and function")

    def test_where_all_are_wrong_a_kernel_of_ours_computes(self):
        for word in ("gemm", "gemm_fp16", "matmul", "matmul_bias"):
            self.assertEqual(self.exec(word, word, STAND_IN_WRONG="1000", KSCOUT_CUDA_MODULE=MODULE)[1], ("right", 0), word)
            self.assertEqual(self.counted("wrong results avoided"), 2)
            self.assertRegex(self.said, r"; a kernel of KernelScout computes it \(--report counts such calls\)\n\Z")
        again = self.exec("gemm", keep=True, STAND_IN_WRONG="1000", KSCOUT_CUDA_MODULE=MODULE)
        self.assertEqual([word for word, _ in again], ["right"], "it is prepared anew")
        for word in ("gemm_fp32_result", "batched", "sgemm"):
            self.exec(word, STAND_IN_WRONG="1000", KSCOUT_CUDA_MODULE=MODULE)
            self.assertEqual(self.counted("wrong results could not be avoided"), 1, word)

    def test_nothing_runs_in_a_capture(self):
        answers = self.exec("gemm_captured", "gemm", "gemm_captured")
        self.assertEqual([word for word, _ in answers], ["wrong", "right", "right"])
        self.assertEqual([answers[0][1], answers[2][1]], [1, 1])
        self.assertEqual(self.counted("calls not guarded"), 1)

    def test_where_nothing_can_run_the_errata_decide(self):
        if not os.path.exists(os.path.join(PROGRAMS, "libkscout_cuda.so")):
            self.skipTest("no CUDA toolkit at the build: numbers of tiles and stages have no names")
        for word in ("gemm_captured", "matmul_captured"):
            self.assertEqual(self.exec(word, word, STAND_IN_ERRATA="1"), [("right", 1)] * 2)
            self.assertIn("its algorithm is known to be wrong", self.said)
            self.assertEqual(self.counted("problems examined"), 0)
        self.assertEqual(self.exec("matmul_own_captured", STAND_IN_ERRATA="1")[0][0], "right")
        self.assertEqual(self.exec("gemm", STAND_IN_ERRATA="1", STAND_IN_SIDE_MIB="0")[0][0], "right")
        self.assertEqual(self.counted("calls not guarded"), 0)
        self.assertEqual(self.exec("gemm_captured", STAND_IN_ERRATA="1", STAND_IN_CUBLASLT="120800")[0][0], "right", "by structure")
        self.exec("gemm_captured", "gemm", STAND_IN_ERRATA="1", STAND_IN_WRONG="1000")
        self.assertEqual(self.counted("problems examined"), 1, "what runs outside of captures is examined, and not only looked up")

    def test_later_processes_know_the_verdicts(self):
        words = ["gemm", "matmul", "gemm_fp32_result"]
        self.exec(*words, keep=True)
        self.assertEqual(self.counted("problems examined"), 3)
        listed = subprocess.run([KSCOUT, "db", "list", "--db", self.db, "--verdicts", "--format", "csv"], env=self.env, text=True, capture_output=True,
                                check=True).stdout
        self.assertEqual(len(re.findall(r"^gemm:16x24x4096:bf16:rcr\S* by .*,replaced,[0-9a-f]{128},\d+$", listed.replace('"', ""), re.M)),
                         3, listed)
        answers = self.exec(*words, keep=True)
        self.assertEqual([word for word, _ in answers], ["right"] * 3)
        self.assertEqual(self.counted("problems examined"), 0)
        self.assertEqual(self.counted("wrong results avoided"), 3)
        self.assertIn("(as found before); another of its algorithms", self.said)
        self.assertEqual(self.exec("gemm_captured", keep=True)[0][0], "right", "nothing has to run to know it")
        self.exec("gemm", keep=True, STAND_IN_CUBLASLT="130200")
        self.assertEqual(self.counted("problems examined"), 1, "another release has algorithms of its own")

    def test_what_is_right_or_unavoidable_is_known_later_too(self):
        self.exec("gemm", keep=True, fault="")
        self.assertEqual(self.exec("gemm", keep=True), [("wrong", 1)], "as of a library that was right")
        self.exec("matmul", keep=True, STAND_IN_WRONG="1000")
        self.assertEqual(self.exec("matmul", keep=True), [("wrong", 1)])
        self.assertIn("(as found before); nothing else computes it right", self.said)

    def test_a_damaged_file_of_verdicts_is_said_once(self):
        with open(self.db, "w", encoding="utf-8") as file:
            file.write("no database")
        self.assertEqual([word for word, _ in self.exec("gemm", "matmul", keep=True)], ["right", "right"])
        self.assertEqual(self.said.count("earlier verdicts of the guard are not used"), 1)

    def test_without_memory_nothing_is_examined(self):
        answers = self.exec("gemm", "gemm", STAND_IN_SIDE_MIB="0")
        self.assertEqual(answers, [("wrong", 1)] * 2)
        self.assertEqual(self.counted("calls not guarded"), 2)

    def test_without_a_driver_calls_pass_on(self):
        for options in (["--guard"], []):
            self.assertEqual(self.exec("gemm", "matmul", options=options, program=GUARDED + "_without_driver"), [("wrong", 1)] * 2)

    def test_threads_share_a_verdict(self):
        self.assertEqual(self.exec("threads")[0][0], "right")
        self.assertEqual(self.counted("problems examined"), 1)
        self.assertEqual(self.counted("wrong results avoided"), 400)

    def test_it_is_part_of_serving_and_can_be_left_out(self):
        self.assertEqual(self.exec("gemm_fp32_result", options=[])[0][0], "right")
        self.assertEqual(self.exec("gemm_fp32_result", options=["--no-guard"])[0], ("wrong", 1))
        self.assertNotIn("examined", self.reported)

    def test_plans_of_cudnn_that_the_errata_have_are_named(self):
        calls = os.path.join(TESTS, "preload_linked")
        self.exec("convolve_wrong", program=calls)
        self.assertEqual(self.counted("convolutions by engines of cuDNN that are known to be wrong"), 3)
        self.assertEqual(re.findall(r"conv_fwd:2x12x4x4:16x1x1:fp16:nhwgc: cuDNN computes it by (\S+),", self.said),
                         ["cudnn_conv_fwd_fp16_nhwgc_v91900__e58_workspace1"], "once for a problem")
        self.exec("convolve", program=calls)
        self.assertEqual(self.said, "")
        self.exec("convolve_wrong", program=calls, options=["--no-guard"])
        self.assertEqual(self.said, "")

    def test_options_without_an_effect_are_refused(self):
        for options in (["--guard", "--no-guard"], ["--guard", "--no-serve"], ["--guard", "--refine"], ["--guard", "--min-gain", "3"],
                        ["--no-guard", "--no-serve", "--report", "-"], ["--guard", "--policy", "batch-invariant"]):
            done = subprocess.run([KSCOUT, "exec", *options, "--", "true"], env=self.env, text=True, capture_output=True, check=False)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn("has no effect with", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
