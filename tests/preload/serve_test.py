#!/usr/bin/env python3
"""Serving by kscout exec, on a program that calls stand-ins for cuBLAS, cuBLASLt and the driver; the module of backend cuda is one
whose GPU is the CPU (tests/libraries/host_gpu.cpp), the model that of the H200.

    serve_test.py FOLDER_OF_PROGRAMS FOLDER_OF_TEST_PROGRAMS MODULE MODELS [TEST...]
"""
import csv
import json
import os
import re
import subprocess
import sys
import unittest

from serving import ServingTest

PROGRAMS, TESTS, MODULE, MODELS = (os.path.abspath(path) for path in sys.argv[1:5])
KSCOUT, SERVED = os.path.join(PROGRAMS, "kscout"), os.path.join(TESTS, "preload_served")
PROBLEM = "gemm:96x120x4096:bf16:rcr"
OWN = "odd:1024x2001x768"  # runs on a kernel of hopper
COPIED = "odd:1024x4096x1001"  # runs on copies of A and B


class ServeTest(ServingTest):
    def setUp(self):
        self.prepare(PROGRAMS, MODULE, MODELS)

    def exec(self, *words, options=(), stderr="", **env):
        """What the program prints of each word, in their order. Results are computed and checked with HOST_GPU_SKIP="" only."""
        env = {"HOST_GPU_SKIP": "1", **env}
        if not env["HOST_GPU_SKIP"]:
            del env["HOST_GPU_SKIP"]
        lines = self.exec_lines(SERVED, words, options, stderr, **env)
        self.memory = [line for line in lines if line.startswith("mallocs")]
        return [line.split()[-1] for line in lines]

    def runs(self):
        return re.findall(r"run (\S+) workspace (\S+) stream (\S+)", self.text(self.log))

    def passed_on(self, words, why, **env):
        """All products after the first are passed on for this reason."""
        answers = self.exec("gemm", *words, **env)
        self.assertEqual(answers[1:], ["passed"], words)
        self.assertRegex(self.text(self.report), rf"\n +1 passed on: {why}")
        return answers[0]

    # ---- served

    def test_a_known_problem_runs_on_the_models_pick(self):
        self.assertEqual(self.exec("gemm", "gemm", "twice", HOST_GPU_SKIP=""), ["served"] * 3)
        best, = {run[0] for run in self.runs()}
        self.assertRegex(best, r"\Aa7_64x64x32_st3_s(?!1\Z)\d+\Z", "what the library lists first, with split-K slices")
        self.assertEqual(self.text(self.log).count("prepare"), 1, "it is decided once")
        report = self.text(self.report)
        self.assertRegex(report, r"\n  3 served; expected saving 0\.0\d*[1-9]\d* ms of GPU time\n")
        self.assertNotIn("passed on", report)
        self.assertNotIn("serving is off", report)

    def test_a_product_of_cublaslt_runs_in_its_own_workspace_and_stream(self):
        self.assertEqual(self.exec("matmul", HOST_GPU_SKIP=""), ["served"])
        (_, workspace, stream), = self.runs()
        self.assertEqual((workspace, stream), (self.workspace, "0x30"))

    def test_the_workspace_of_a_handle_is_used_until_it_changes(self):
        self.assertEqual(self.exec("own_workspace", "gemm", "tiny_workspace", "gemm", "own_workspace", "stream", "gemm",
                                   "own_workspace", "destroy", "gemm"), ["served"] * 4)
        places = [run[1] for run in self.runs()]
        self.assertEqual([place == self.workspace for place in places], [True, False, False, False])
        self.assertEqual([run[2] for run in self.runs()], ["0x0", "0x0", "0x40", "0x40"])

    def test_each_stream_has_a_workspace(self):
        self.assertEqual(self.exec("gemm", "stream", "gemm", "gemm", "matmul_small_workspace"), ["served"] * 4)
        first, second, third, other = (run[1] for run in self.runs())
        self.assertEqual(second, third)
        self.assertEqual(len({first, second, other, self.workspace}), 4)

    def test_threads_share_a_decision(self):
        self.assertEqual(self.exec("threads"), ["served"])
        self.assertEqual(len(self.runs()), 1000)
        self.assertEqual(self.text(self.log).count("prepare"), 1)
        self.assertRegex(self.text(self.report), r"\n  1000 served; ")

    def test_threads_open_the_core_and_load_models_at_once(self):
        for options in ([], ["--refine"]):
            self.exec("many_problems", options=options)
            report = self.text(self.report)
            self.assertIn("\n  1000 products of 24 problems\n", report)
            self.assertNotIn("failed", report)
            counts = {why: int(count) for count, why in re.findall(r"\n  (\d+) (served|passed on: .*?)(?=[;\n])", report)}
            self.assertEqual(sum(counts.values()), 1000, report)
            self.assertEqual(counts["served"], len(self.runs()))
            self.assertGreater(counts["served"], 500)
            prepared = re.findall("prepare (.*)", self.text(self.log))
            self.assertLessEqual(len(prepared), 24, "each problem is decided once")

    def test_a_program_may_end_while_threads_compute(self):
        for _ in range(5):
            self.assertEqual(self.exec("leave"), ["left"])
            self.assertRegex(self.text(self.report), r"\n  [1-9]\d* products of \d+ problems\n")
            self.assertNotIn("release", self.text(self.log), "no memory is given back at the end")

    # ---- captures

    def test_a_capture_uses_what_was_decided_and_reserved_before(self):
        self.assertEqual(self.exec("gemm", "captured_stream", "gemm", "gemm", HOST_GPU_SKIP=""), ["served"] * 3)
        outside, inside, again = (run[1] for run in self.runs())
        self.assertNotEqual(outside, inside, "a graph shares its workspace with nothing else")
        self.assertEqual(inside, again)
        after_first_run = self.text(self.log).split("run", 1)[1]
        self.assertNotIn("allocate", after_first_run, "nothing is allocated in a capture")

    def test_nothing_is_decided_in_a_capture(self):
        self.assertEqual(self.exec("captured_stream", "gemm", "stream", "gemm"), ["passed", "served"])
        self.assertRegex(self.text(self.report), "1 passed on: .*capture of a graph")

    # ---- policy batch-invariant

    def classes(self, config):
        """A file with a class of the program's weight, measured at 1 and 96 rows, whose only member is this config."""
        file = os.path.join(self.folder, "classes.json")
        subprocess.run([KSCOUT, "classes", "gemm:1x8x8:bf16", "--backend", "cuda", "--rows", "1", "--top", "1", "--of-split", "1",
                        "--seconds", "0.001", "--classes", file], env=self.env, check=True, capture_output=True)
        with open(file, encoding="utf-8") as stored:
            known = json.load(stored)
        weight = known["weights"][0]
        weight.update(weight="gemm:1x120x4096:bf16:rcr", every=1, above=[96],
                      members=[{"config": config, "equal": "11", "time_us": {"1": 9.5, "96": 9.5}}])
        with open(file, "w", encoding="utf-8") as stored:
            json.dump(known, stored)
        return file

    def test_all_products_of_a_weight_with_a_class_run_on_it_and_no_others(self):
        file = self.classes("cublaslt_gemm_bf16_rcr_v130100__a7_64x64x32_st3_s1_none_w0_o0_any_c0x0")
        options = ("--policy", "batch-invariant", "--classes", file)
        self.assertEqual(self.exec("gemm", "matmul", "gemm", options=options, HOST_GPU_SKIP=""), ["served"] * 3)
        self.assertEqual({run[0] for run in self.runs()}, {"a7_64x64x32_st3_s1"})
        self.assertNotIn("passed on", self.text(self.report))
        self.exec("gemm", "small", options=options, stderr=r"kscout exec: gemm:\S+: policy batch-invariant: \S+ has no classes of it .*\n")
        self.assertRegex(self.text(self.report), r"\n +1 served; .*\n +1 passed on: policy batch-invariant has no class")

    def test_classes_of_another_release_serve_nothing(self):
        file = self.classes("cublaslt_gemm_bf16_rcr_v130100__a7_64x64x32_st3_s1_none_w0_o0_any_c0x0")
        self.assertEqual(self.exec("gemm", options=("--policy", "batch-invariant", "--classes", file), HOST_GPU_CUBLASLT="130200",
                                   stderr=r".*were measured with cublaslt_version=130100 .*, here is cublaslt_version=130200.*\n"), ["passed"])

    def test_a_wrong_policy_is_reported(self):
        self.assertEqual(self.exec("gemm", KSCOUT_PRELOAD_POLICY="fast"), ["served"])  # kscout exec sets it

    def test_products_with_a_bias_are_served(self):
        self.assertEqual(self.exec("gemm", "biased"), ["served", "served"])

    def test_products_with_an_activation_alone_run_as_those_that_also_add_a_bias(self):
        self.assertEqual(self.exec("gemm", "relu", "gelu"), ["served"] * 3)
        self.assertEqual(len({run[0] for run in self.runs()}), 1, "chosen as those without an epilogue")

    def test_results_are_checked(self):
        guarded = os.path.join(TESTS, "preload_guarded")
        for words, fault, counts, one_of in ((["gemm", "matmul", "sgemm", "batched"], "", "4 results checked: 0", 1),
                                             (["gemm", "matmul", "gemm_fp32_result"], "tail", "3 results checked: 3", 1),
                                             (["matmul_fp16", "matmul_bias"], "tail", "1 results checked: 1", 1),
                                             (["gemm"] * 5, "tail", "2 results checked: 2", 2),
                                             (["gemm_adds", "gemm_captured", "gemm_gpu_factors", "matmul"], "tail", "1 results checked: 1", 1)):
            done = subprocess.run([KSCOUT, "exec", "--no-serve", "--report", "-", "--check-results", str(one_of), "--", guarded, *words],
                                  env={**self.env, "STAND_IN_FAULT": fault}, text=True, capture_output=True, check=True, timeout=60)
            self.assertRegex(done.stderr, rf"\n  {counts} of them are wrong, the largest", words)
            said = re.findall(r"^kscout exec: (gemm:16x24x4096:\S+): a result is wrong: .*\(tolerance", done.stderr, re.M)
            self.assertEqual(len(said), 0 if not fault else len({word.replace("matmul", "gemm") for word in words if word in
                             ("gemm", "matmul", "gemm_fp32_result", "matmul_fp16")}), "once for a problem")
        self.assertEqual(self.exec("gemm", "matmul", options=["--check-results", "1"], HOST_GPU_SKIP=""), ["served"] * 2)
        self.assertIn("2 results checked: 0 of them", self.text(self.report))

    def test_without_a_module_results_are_not_checked(self):
        done = subprocess.run([KSCOUT, "exec", "--guard", "--check-results", "1", "--", SERVED, "gemm", "gemm"], text=True, capture_output=True,
                              env={**self.env, "KSCOUT_CUDA_MODULE": "/absent"}, check=True, timeout=60)
        self.assertEqual(done.stderr.count("results are checked no more: "), 1)

    # ---- passed on

    def test_calls_that_ask_for_something_else_are_passed_on(self):
        for word, why in {"pedantic": "a compute type or math mode", "unaligned": "an address", "gaps": "items of a batch",
                          "share": "a limit on the number of multiprocessors", "scaled": "scale or amax pointers",
                          "matmul_addend": "C and D are two matrices", "small": "small products",
                          "fp32": "no model knows the problem", "zero_alpha": "alpha is 0",
                          "fp16_sums": "alpha and beta of another type", "device_alpha": "alpha or beta in the GPU's memory"}.items():
            with self.subTest(word):
                self.assertEqual(self.passed_on([word], why), "served")

    def test_calls_that_cannot_be_read_are_passed_on(self):
        self.assertEqual(self.exec("gemm", "aux"), ["served", "passed"])
        self.assertRegex(self.text(self.report), "1 not read: ")

    def test_a_small_gain_is_passed_on(self):
        self.assertEqual(self.exec("gemm", options=["--min-gain", "500"]), ["passed"])
        self.assertRegex(self.text(self.report), "1 passed on: the model expects too little")
        self.assertEqual(self.exec("gemm", KSCOUT_PRELOAD_MIN_SAVED_US="100"), ["passed"])
        self.assertEqual(self.exec("gemm", options=["--min-gain", "5"]), ["served"])

    def test_without_memory_for_a_workspace_the_library_computes(self):
        self.assertEqual(self.exec("gemm", "own_workspace", "gemm", STAND_IN_FREE_MIB="99"), ["passed", "served"])
        self.assertRegex(self.text(self.report), "1 passed on: no memory is left")

    def test_memory_that_cannot_be_allocated_is_no_error(self):
        env = {"HOST_GPU_FAIL": "allocate", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        self.assertEqual(self.exec("gemm", "own_workspace", "gemm", **env), ["passed", "served"])
        self.assertRegex(self.text(self.report), "1 passed on: no memory is left")

    # ---- memory is given back on need

    def test_an_allocation_that_fails_gets_our_memory(self):
        self.assertEqual(self.exec("gemm", "cudaMalloc", "gemm", STAND_IN_MALLOC_FAILS="1"), ["served", "0", "served"])
        self.assertEqual(self.memory, ["mallocs 2 status 0 error 0"], "the program does not notice")
        log = self.text(self.log)
        self.assertEqual((log.count("release"), log.count("allocate")), (2, 4), "the workspace and the spare one")
        self.assertIn("\n  workspaces were given back 1 times, because the program needed memory\n", self.text(self.report))

    def test_an_allocation_that_fails_without_memory_of_ours_fails(self):
        self.exec("cudaMalloc", "gemm", "cudaMalloc", "cudaMalloc", STAND_IN_MALLOC_FAILS="4")
        self.assertEqual(self.memory, ["mallocs 1 status 2 error 2", "mallocs 2 status 2 error 2", "mallocs 1 status 2 error 2"])

    def test_memory_of_a_capture_stays(self):
        self.assertEqual(self.exec("gemm", "captured_stream", "gemm", "cudaMalloc_in_capture", "gemm", "stream", "cudaMalloc",
                                   "captured_stream", "gemm", STAND_IN_MALLOC_FAILS="2"), ["served"] * 2 + ["2", "served", "0", "served"])
        self.assertEqual(self.memory, ["mallocs 1 status 2 error 2", "mallocs 2 status 0 error 0"])
        workspaces = [run[1] for run in self.runs()]
        self.assertEqual(workspaces[1:], [workspaces[1]] * 3)
        self.assertNotIn("release " + workspaces[1], self.text(self.log))

    def test_little_memory_is_given_back(self):
        answers = self.exec("gemm", "scarce", *["gemm"] * 70, "plenty", *["gemm"] * 70)
        self.assertEqual(answers[:64] + answers[-1:], ["served"] * 63 + ["passed"] + ["served"])
        log = self.text(self.log)
        self.assertEqual((log.count("release"), log.count("allocate")), (2, 4))

    def test_a_workspace_grows_and_the_old_one_is_released_later(self):
        self.assertEqual(self.exec("gemm", COPIED, "gemm"), ["served"] * 3)
        first, _, last = (run[1] for run in self.runs())
        log = self.text(self.log)
        self.assertEqual(log[:log.index("release " + first)].count("\nrun "), 2, "another thread may be about to use it")
        self.assertNotEqual(first, last)

    def test_a_workspace_that_cannot_grow_stays(self):
        self.assertEqual(self.exec("gemm", COPIED, "gemm", STAND_IN_FREE_MIB="105"), ["served", "passed", "served"])
        before, after = (run[1] for run in self.runs())
        self.assertEqual(before, after)
        self.assertNotIn("release", self.text(self.log))

    def test_threads_compute_while_memory_is_given_back(self):
        self.exec("allocating_threads", STAND_IN_MALLOC_FAILS="1000")
        report = self.text(self.report)
        counts = re.findall(r"\n  (\d+) (?:served|passed on)", report)
        self.assertEqual(sum(map(int, counts)), 1000, report)
        self.assertNotIn("failed", report)

    def test_other_contexts_and_children_are_passed_on(self):
        self.assertEqual(self.exec("gemm", STAND_IN_OTHER_CONTEXT="1"), ["passed"])
        self.assertRegex(self.text(self.report), "serving is off: .* not the primary one")
        self.assertEqual(self.exec("gemm", "fork", "gemm"), ["served", "passed", "served"])
        self.assertRegex(self.text(self.report), "serving is off: a forked process has no GPU")

    # ---- two GPUs: the first product's one is served

    def test_products_of_another_gpu_are_passed_on(self):
        self.assertEqual(self.exec("device:1", "gemm", "device:0", "gemm", "twice", "device:1", "gemm", "twice", HOST_GPU_SKIP=""),
                         ["served", "passed", "passed", "served", "served"])
        self.assertEqual(re.findall("open .*", self.text(self.log)), ["open 1"])
        self.assertRegex(self.text(self.report), r"\n  3 served; .*\n  2 passed on: another GPU or context")

    def test_memory_of_another_gpu_stays(self):
        self.assertEqual(self.exec("gemm", "device:1", "cudaMalloc", "gemm", "device:0", "gemm", STAND_IN_MALLOC_FAILS="1"),
                         ["served", "2", "passed", "served"])
        self.assertEqual(self.memory, ["mallocs 1 status 2 error 2"], "memory of GPU 0 would not help")
        self.assertNotIn("release", self.text(self.log))

    def test_threads_use_two_gpus(self):
        for options in ([], ["--refine"]):
            self.assertEqual(self.exec("two_devices", options=options), ["mixed"])
            report = self.text(self.report)
            counts = {why: int(count) for count, why in re.findall(r"\n  (\d+) (served|passed on: .*?)(?=[;\n])", report)}
            self.assertEqual(counts.pop("passed on: another GPU or context than that of the first product"), 500, report)
            self.assertEqual(sum(counts.values()), 500, report)
            self.assertEqual(counts["served"], len(self.runs()))
            self.assertEqual(len(set(re.findall("open .*", self.text(self.log)))), 1, "one of the GPUs")

    # ---- --refine: library, pick, pick, library and so on; the first call of each is not timed

    TURNS = ["passed", "served", "served", "passed"] * 3

    def refine(self, *words, library=20, pick=10, **env):
        return self.exec(*words, options=["--refine"], STAND_IN_LIBRARY_US=str(library), STAND_IN_PICK_US=str(pick), **env)

    def decisions(self):
        done = subprocess.run([KSCOUT, "db", "list", "--format", "json"], env=self.env, text=True, capture_output=True, check=True)
        return json.loads(done.stdout)

    def test_a_faster_pick_stays_and_the_next_process_starts_with_it(self):
        self.assertEqual(self.refine(*["gemm"] * 14, HOST_GPU_SKIP=""), self.TURNS + ["served"] * 2)
        report = self.text(self.report)
        self.assertRegex(report, "\n  8 served; expected saving 0\\.0")
        self.assertIn("1 problems timed by --refine: 0 of them keep the library's kernel, 0 are not finished", report)
        self.assertRegex(report, "\n  6 passed on: timed for --refine")
        stored, = self.decisions()
        self.assertEqual((stored["problem"], round(stored["time_us"]), round(stored["next_us"]), stored["timed"], stored["limits"]),
                         (PROBLEM, 10, 20, 2, "deterministic"))
        self.assertIn(self.runs()[0][0], stored["config"])
        self.assertEqual(self.exec("gemm", options=["--min-gain", "500"]), ["served"], "it was timed")
        self.assertRegex(self.text(self.report), "expected saving 0\\.010 ms")
        self.assertEqual(self.refine("gemm"), ["served"], "it is not timed again")
        self.assertNotIn("--refine", self.text(self.report))

    def test_a_faster_library_is_kept_and_the_next_process_starts_with_it(self):
        self.assertEqual(self.refine(*["gemm"] * 13, library=9), self.TURNS + ["passed"])
        report = self.text(self.report)
        self.assertIn("1 problems timed by --refine: 1 of them keep the library's kernel, 0 are not finished", report)
        self.assertRegex(report, "\n  1 passed on: the library's kernel was faster when both were timed")
        stored, = self.decisions()
        self.assertEqual((stored["config"], round(stored["time_us"]), round(stored["next_us"])),
                         ("cublaslt_gemm_bf16_rcr_v130100__suggestion1", 9, 10))
        self.assertEqual(self.exec("gemm"), ["passed"])
        self.assertRegex(self.text(self.report), "\n  1 passed on: the library's kernel was faster when both were timed")
        self.assertEqual(self.exec("gemm", KSCOUT_DISABLE="guard,db"), ["served"])
        self.assertEqual(self.exec("gemm", KSCOUT_DB=os.path.join(self.folder, "other.sqlite")), ["served"])

    def test_what_was_timed_on_one_gpu_says_nothing_about_another(self):
        others = ["device:1", "gemm", "device:0"]
        answers = self.refine("gemm", *others, *["gemm"] * 5, *others, *["gemm"] * 7, library=9)
        self.assertEqual(answers, self.TURNS[:1] + ["passed"] + self.TURNS[1:6] + ["passed"] + self.TURNS[6:] + ["passed"])
        self.assertEqual(self.exec("gemm"), ["passed"])
        self.assertEqual(self.exec("device:1", "gemm"), ["served"], "an H100, of which nothing is stored")

    def test_a_kernel_of_our_own_starts_with_its_timing(self):
        self.assertEqual(self.refine(*[OWN] * 13), self.TURNS + ["served"])
        self.assertRegex(self.decisions()[0]["config"], "^hopper_gemm_bf16")
        self.assertEqual(self.refine(OWN), ["served"], "it is not timed again")

    def test_a_pick_on_copies_starts_with_its_timing(self):
        self.assertEqual(self.refine(*[COPIED] * 13, library=60, pick=50), self.TURNS + ["served"])
        stored, = self.decisions()
        self.assertEqual(stored["problem"], "gemm:1024x4096x1001:bf16:rcr:lda=1024:ldb=1024")
        self.assertLess(stored["time_us"], 50)
        self.assertEqual((stored["timed"], stored["next_us"]), (1, None))
        self.assertEqual(self.refine(COPIED), ["served"], "it is not timed again")
        self.assertEqual(self.exec(COPIED, options=["--min-gain", "900"]), ["served"], "whatever the model expects")
        self.assertEqual(self.exec("gemm", options=["--min-gain", "900"]), ["passed"])
        self.assertEqual(self.refine(*[COPIED] * 13, library=40, pick=50, KSCOUT_DB="new.sqlite"), self.TURNS + ["passed"])
        self.assertEqual(self.exec(COPIED, KSCOUT_DB="new.sqlite"), ["passed"])

    def test_events_are_read_when_the_gpu_has_passed_them(self):
        answers = self.refine(*["gemm"] * 16, library=9, STAND_IN_PENDING="60")
        self.assertEqual(answers[:12], self.TURNS)
        self.assertEqual(answers[12:], sorted(answers[12:], reverse=True), "the pick serves until the GPU is done")
        self.assertEqual((answers[12], answers[15]), ("served", "passed"))

    def test_a_capture_times_nothing_but_may_learn_the_result(self):
        self.assertEqual(self.refine("gemm", "gemm", "captured_stream", *["gemm"] * 3, "stream", *["gemm"] * 10,
                                     "captured_stream", "gemm", library=9),
                         self.TURNS[:2] + ["served"] * 3 + self.TURNS[2:] + ["passed"])
        self.assertEqual(self.refine("captured_stream", "gemm", "stream", "gemm", KSCOUT_DB="new.sqlite"), ["passed"] * 2)

    def test_without_events_the_pick_stays(self):
        for at in ("create", "record", "query", "elapsed"):
            with self.subTest(at):
                self.assertEqual(self.refine(*["gemm"] * 14, library=9, STAND_IN_EVENTS=at), self.TURNS + ["served"] * 2)
                self.assertIn("0 of them keep the library's kernel, 1 are not finished", self.text(self.report))
                self.assertEqual(self.decisions(), [])

    # ---- times of the record

    def times(self, *words, options=(), **env):
        """Calls and microseconds of each problem in the record."""
        record = os.path.join(self.folder, "shapes.csv")
        self.exec(*words, options=["--record", record, *options], **{"STAND_IN_LIBRARY_US": "20", "STAND_IN_PICK_US": "10", **env})
        with open(record, encoding="utf-8", newline="") as text:
            return {row["problem"]: (int(row["calls"]), row["total_us"].strip()) for row in csv.DictReader(text)}

    def test_the_record_has_the_time_of_all_calls(self):
        convolution = "conv_fwd:2x8x4x4:16x1x1:fp16:nhwgc"
        rows = self.times(*["gemm"] * 40, *["convolve"] * 3)
        self.assertEqual(rows, {PROBLEM: (40, "400.0"), convolution: (3, "60.0")})
        rows = self.times(*["gemm"] * 40, *["convolve"] * 3, options=["--no-serve"])
        self.assertEqual(rows, {PROBLEM: (40, "800.0"), convolution: (3, "60.0")})
        self.assertEqual(self.times(*["gemm"] * 40, options=["--refine"])[PROBLEM], (40, "400.0"), "most calls run on the pick")

    def test_calls_that_cannot_be_timed_are_counted(self):
        captured = ["gemm", "captured_stream", *["gemm"] * 3, "convolve"]
        self.assertEqual([row[1] for row in self.times(*captured[1:]).values()], ["", ""])
        self.assertEqual(self.times(*captured)[PROBLEM], (4, "40.0"), "by the call before the capture")
        for env in ({"STAND_IN_PENDING": "100000"}, *({"STAND_IN_EVENTS": at} for at in ("create", "record", "query", "elapsed"))):
            with self.subTest(env):
                self.assertEqual(self.times(*["gemm"] * 3, **env)[PROBLEM], (3, ""))
        self.assertEqual(self.times("gemm", "device:1", *["convolve"] * 3)["conv_fwd:2x8x4x4:16x1x1:fp16:nhwgc"], (3, ""))

    def test_threads_time_a_problem_once(self):
        self.assertEqual(self.refine("threads"), ["mixed"])
        report = self.text(self.report)
        self.assertIn("1 problems timed by --refine", report)
        served, timed = (int(re.search(words, report).group(1)) for words in (r"(\d+) served;", r"(\d+) passed on: timed"))
        self.assertEqual((served + timed, timed), (1000, 6))

    def test_failures_of_a_timed_pick_are_calls_of_the_original(self):
        self.assertEqual(self.refine("gemm", "gemm", "gemm", HOST_GPU_FAIL="run"), ["passed"] * 3)
        self.assertRegex(self.text(self.report), "2 passed on: our code failed")

    def test_a_file_of_decisions_that_cannot_be_used_is_reported(self):
        done = subprocess.run([KSCOUT, "exec", "--refine", "--", SERVED, "gemm"], env={**self.env, "KSCOUT_DB": self.folder},
                              text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"{self.folder}: is a folder", done.stderr)
        env = {**self.env, "LD_PRELOAD": os.path.join(PROGRAMS, "libkscout_preload.so"), "KSCOUT_PRELOAD_SERVE": "1",
               "KSCOUT_PRELOAD_REFINE": "1", "KSCOUT_DB": "/dev/null/none", "STAND_IN_LIBRARY_US": "9", "STAND_IN_PICK_US": "10",
               "HOST_GPU_SKIP": "1"}
        done = subprocess.run([SERVED, *["gemm"] * 14], env=env, text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual([line.split()[1] for line in done.stdout.splitlines()[1:]], self.TURNS + ["passed"] * 2)
        self.assertEqual(done.stderr.count("what --refine timed is not stored: decisions /dev/null/none"), 1, done.stderr)
        broken = os.path.join(self.folder, "broken.sqlite")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("no database " * 100)
        unused = "kscout exec: earlier verdicts of the guard are not used: .*\n"
        self.assertEqual(self.exec("gemm", KSCOUT_DB=broken, stderr=unused), ["passed"])
        self.assertRegex(self.text(self.report), "serving is off: decisions .*broken.sqlite: ")

    # ---- failures

    def test_failures_of_ours_are_calls_of_the_original(self):
        self.assertEqual(self.exec("gemm", "gemm", HOST_GPU_FAIL="run"), ["passed"] * 2)
        self.assertEqual(len(self.runs()), 1, "it is tried once")
        self.assertRegex(self.text(self.report), "2 passed on: our code failed")
        self.assertEqual(self.exec("gemm", "gemm", HOST_GPU_FAIL="prepare"), ["passed"] * 2)
        self.assertEqual(self.text(self.log).count("prepare"), 1)
        self.assertEqual(self.exec("threads", HOST_GPU_FAIL="run"), ["passed"])

    def check_all_counted(self, words, **how):
        """Each product is right, whoever computed it, and is counted once."""
        answers = self.exec(*words, HOST_GPU_SKIP="", stderr=r"(kscout exec: .*\n)*", **how)
        self.assertLessEqual(set(answers), {"served", "passed"}, how)
        report = self.text(self.report)
        if "process" in report:
            counts = [int(count) for count in re.findall(r"\n  (\d+) (?:served|passed on)", report)]
            self.assertEqual(sum(counts), len(words), report)
        return answers.count("served")

    def test_each_allocation_of_ours_fails_once(self):
        served = at = 0
        while at < 150000:
            at += 1 + int(at > 4) * at
            for options in ([], ["--refine"]):
                served += self.check_all_counted(["gemm", "gemm", "twice"], options=options, FAULT_AT=str(at),
                                                 LD_PRELOAD=os.path.join(TESTS, "libpreload_faults.so"))
        self.assertGreater(served, 40)

    def test_each_launch_fails_once(self):
        for at in range(1, 9):
            self.check_all_counted(["gemm"] * 16, options=["--refine"], HOST_GPU_FAIL=f"run:{at}")
            if at <= 6:  # the picks of a contest; it ends all the same
                self.assertIn("1 problems timed by --refine", self.text(self.report))

    def test_without_a_gpu_or_a_model_the_library_computes(self):
        self.assertEqual(self.exec("gemm", KSCOUT_CUDA_MODULE=os.path.join(self.folder, "none.so")), ["passed"])
        self.assertRegex(self.text(self.report), "serving is off: .*none.so does not exist")
        broken = os.path.join(self.folder, "broken.so")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("no library")
        self.assertEqual(self.exec("gemm", KSCOUT_CUDA_MODULE=broken), ["passed"])
        self.assertRegex(self.text(self.report), "serving is off: .*broken.so")

    # ---- another release of cuBLASLt than the model's

    def test_under_another_release_copies_and_kernels_of_our_own_are_served(self):
        for ours, theirs, why in (("130100", "120900", "has loaded cuBLASLt 120900, backend cuda uses 130100"),
                                  ("130200", "130100", "has loaded cuBLASLt 130100, backend cuda uses 130200")):
            with self.subTest(why):
                self.assertEqual(self.exec("gemm", OWN, COPIED, HOST_GPU_CUBLASLT=ours, STAND_IN_CUBLASLT=theirs),
                                 ["passed", "served", "served"])
                report = self.text(self.report)
                self.assertRegex(report, "\n  only copies and kernels that need no cuBLASLt are served: the program " + why)
                self.assertRegex(report, "\n  1 passed on: the model expects too little from another choice")
                own, copied = (run[0] for run in self.runs())
                self.assertEqual((own, copied), ("a0_0x0x0_st0_s1", "a7_64x64x32_st3_s1"), "hopper, and the first suggestion")

    def test_the_model_ranks_what_another_release_lists(self):
        following = os.path.join(os.path.dirname(MODULE), "host_gpu_next.so")  # it numbers algorithms anew
        self.assertEqual(self.exec("gemm", "gemm", KSCOUT_CUDA_MODULE=following, STAND_IN_CUBLASLT="130200"), ["served"] * 2)
        report = self.text(self.report)
        self.assertIn("\n  cuBLASLt 13.2.0\n", report)
        self.assertNotIn("passed on", report)
        self.assertTrue({run[0] for run in self.runs()} <= {"a107_64x64x32_st3_s%d" % slices for slices in range(2, 65)}, self.runs())

    def test_a_pick_of_another_release_is_not_served(self):
        self.assertEqual(self.refine(*["gemm"] * 13)[-1], "served")
        self.assertEqual(self.exec("gemm"), ["served"])
        self.assertEqual(self.exec("gemm", STAND_IN_CUBLASLT="130200"), ["passed"])
        self.assertRegex(self.text(self.report), "1 passed on: the kernel needs another release of cuBLASLt")
        self.assertEqual(self.exec("gemm", HOST_GPU_CUBLASLT="130200", STAND_IN_CUBLASLT="130200"), ["served"], "decided anew")

    def test_that_the_library_was_faster_holds_for_its_release(self):
        self.assertEqual(self.refine(*[OWN] * 13, library=9)[-1], "passed")
        self.assertEqual(self.exec(OWN), ["passed"])
        self.assertEqual(self.exec(OWN, HOST_GPU_CUBLASLT="130200", STAND_IN_CUBLASLT="130200"), ["served"])

    def test_without_a_cublaslt_of_ours_nothing_is_served(self):
        self.assertEqual(self.exec(OWN, HOST_GPU_CUBLASLT="0"), ["passed"])
        self.assertRegex(self.text(self.report), "serving is off: backend cuda finds no cuBLASLt; KSCOUT_CUBLASLT names")

    # ---- settings

    def test_wrong_settings_are_reported_once(self):
        env = {**self.env, "LD_PRELOAD": os.path.join(PROGRAMS, "libkscout_preload.so"), "KSCOUT_PRELOAD_SERVE": "1",
               "KSCOUT_PRELOAD_MIN_GAIN": "much"}
        done = subprocess.run([SERVED, "gemm", "gemm"], env=env, text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.stdout.splitlines()[1:], ["gemm passed"] * 2)
        self.assertEqual(done.stderr.count("KSCOUT_PRELOAD_MIN_GAIN=much is no number"), 1)
        done = subprocess.run([SERVED, "gemm"], env={**env, "KSCOUT_PRELOAD_MIN_GAIN": "2", "KSCOUT_PRELOAD_REFINE": "yes"},
                              text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.stdout.splitlines()[1:], ["gemm passed"])
        self.assertIn("KSCOUT_PRELOAD_REFINE=yes is neither 0 nor 1; nothing is served", done.stderr)
        done = subprocess.run([SERVED, "gemm"], env={**env, "KSCOUT_PRELOAD_SERVE": "0", "KSCOUT_PRELOAD_GUARD": "1"},
                              text=True, capture_output=True, timeout=120, check=False)
        self.assertIn("MIN_GAIN=much is no number of at least 0; nothing is served, and no verdict is stored", done.stderr)
        done = subprocess.run([SERVED, "gemm", "gemm"], env={**env, "KSCOUT_PRELOAD_MIN_GAIN": "2", "KSCOUT_PRELOAD_REFINE": "1",
                                                             "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
                              text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.stdout.splitlines()[1:], ["gemm served"] * 2, "nothing is timed")
        self.assertEqual(done.stderr.count("CUBLAS_WORKSPACE_CONFIG asks for equal results"), 1)
        env.pop("KSCOUT_PRELOAD_MIN_GAIN")
        done = subprocess.run([SERVED, "gemm"], env=env, text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual((done.stdout.splitlines()[1:], done.stderr), (["gemm served"], ""))

    def test_without_serving_all_calls_pass_on(self):
        self.assertEqual(self.exec("gemm", options=["--no-serve"]), ["passed"])
        self.assertNotIn(" served;", self.text(self.report))
        self.assertEqual(self.text(self.log), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
