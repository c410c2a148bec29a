#!/usr/bin/env python3
"""Convolutions under kscout exec, of a program that executes plans of a stand-in for cuDNN. The module of backend cuda is one whose GPU
is the CPU (tests/libraries/host_gpu.cpp); backend cuda uses another stand-in for cuDNN, which computes (tests/libraries/stand_in_cudnn.cpp).

    convolution_test.py FOLDER_OF_PROGRAMS FOLDER_OF_TEST_PROGRAMS MODULE CUDNN MODELS [TEST...]
"""
import json
import os
import re
import subprocess
import sys
import unittest

from serving import ServingTest

PROGRAMS, TESTS, MODULE, CUDNN, MODELS = (os.path.abspath(path) for path in sys.argv[1:6])
CONVOLVED = os.path.join(TESTS, "preload_convolved")
OWN = "groupwise_conv_fwd_bf16_nhwgc__depthwise_v2x4_k1"
PROBLEM = "conv_fwd:2x32x6x6:32x3x3:bf16:nhwgc:pad=1:g=32"
THEIRS = "cudnn_conv_fwd_bf16_nhwgc_v91900__e1_workspace0"
PLAN = "cudnn_conv_fwd_bf16_nhwgc_v91900__e1_tile_size2_tilek1"


class ConvolutionTest(ServingTest):
    def setUp(self):
        self.prepare(PROGRAMS, MODULE, MODELS, KSCOUT_CUDNN=CUDNN, KSCOUT_PRELOAD_CONVOLUTIONS="1")

    def exec(self, *words, pick=OWN, options=(), **env):
        """What the program prints of each word, in their order, while this config is forced."""
        if pick:
            env["KSCOUT_FORCE"] = pick
        return [line.split()[-1] for line in self.exec_lines(CONVOLVED, words, options, **env)]

    def passed_on(self, why):
        self.assertRegex(self.text(self.report), rf"\n  \d+ convolutions passed on: {why}")

    def test_a_plan_is_served_when_another_one_followed_it(self):
        self.assertEqual(self.exec("A", "A", "B", "A!", "A"), ["passed", "passed", "passed", "served", "served"])
        self.assertRegex(self.text(self.report), r"\n  2 convolutions served; expected saving ")
        self.passed_on("first calls of a plan: the program may compare plans")

    def test_kernels_run_on_the_stream_of_the_handle(self):
        self.exec("A", "B", "A!", "stream", "A")
        self.assertEqual(re.findall(r"run groupwise .* stream (\S+)", self.text(self.log)), ["0x0", "0x40"])

    def test_another_plan_of_the_library_computes(self):
        self.assertEqual(self.exec("A", "B", "A!", "B!", "A", pick=PLAN), ["passed", "passed", "served", "served", "served"])

    def test_a_program_that_compares_plans_gets_its_own(self):
        self.assertEqual(set(self.exec(*["A"] * 40, *["a"] * 40, *["A"] * 40)), {"passed"})
        self.assertRegex(self.text(self.report), r"\n  120 convolutions passed on: first calls of a plan")
        self.assertEqual(self.exec("A", "a", "A", "B", "A!")[-1], "served", "the plan that it keeps is replaced")

    def test_a_program_with_one_layer_is_served(self):
        self.assertEqual(self.exec(*["A"] * 201, "A!")[-1], "served")

    def test_the_plan_computes_where_the_model_expects_no_gain(self):
        self.assertEqual(set(self.exec("A", "B", "A", "B", "A", pick=None)), {"passed"})

    # ---- --refine: the plan, three picks, picks, plan and so on; the first call of each is not timed

    def refine(self, *words, library, pick):
        return self.exec(*words, pick=None, options=["--refine"], STAND_IN_LIBRARY_US=str(library), STAND_IN_PICK_US=str(pick))

    def stored(self):
        done = subprocess.run([os.path.join(PROGRAMS, "kscout"), "db", "list", "--format", "json"], env=self.env, text=True,
                              capture_output=True, check=True)
        return [(one["problem"], one["config"], round(one["time_us"]), round(one["next_us"])) for one in json.loads(done.stdout)]

    def test_a_faster_pick_stays_and_the_next_process_starts_with_it(self):
        answers = self.refine("A", "B", "A!", *["A"] * 14, library=20, pick=10)
        self.assertEqual(answers[2:], ["served"] * 6 + ["passed"] + ["served"] * 8, "the plan is dropped after a sample")
        self.assertIn("1 problems timed by --refine: 0 of them keep the library's kernel, 0 are not finished", self.text(self.report))
        (problem, config, *times), = self.stored()
        self.assertEqual((problem, *times), (PROBLEM, 10, 20))
        self.assertNotEqual(config, THEIRS)
        self.assertEqual(self.exec("A", "B", "A!", "A", pick=None)[2:], ["served"] * 2)
        self.assertNotIn("--refine", self.text(self.report))

    def test_a_faster_plan_is_kept(self):
        answers = self.refine("A", "B", "A!", *["A"] * 15, library=9, pick=10)
        self.assertEqual(answers[2:], ["served"] * 6 + ["passed"] * 2 + ["served"] * 6 + ["passed"] * 2)
        self.assertIn("1 problems timed by --refine: 1 of them keep the library's kernel, 0 are not finished", self.text(self.report))
        self.assertEqual(self.stored(), [(PROBLEM, THEIRS, 9, 10)])

    def test_operands_at_any_address_are_passed_on(self):
        self.assertEqual(self.exec("A", "B", "A!", "unaligned:A", "A"), ["passed", "passed", "served", "passed", "served"])
        self.passed_on("an address that is no multiple of 16 bytes")

    def test_a_capture_uses_what_was_decided_before(self):
        self.assertEqual(self.exec("A", "B", "A!", "captured_stream", "A", "stream", "A"),
                         ["passed", "passed", "served", "served", "served"])

    def test_no_kernel_runs_first_in_a_capture(self):
        # Decisions are made in the order of their wishes: when B is served, A's is made.
        self.assertEqual(self.exec("A", "B", "A", "B!", "captured_stream", "A", "stream", "A"),
                         ["passed"] * 3 + ["served", "passed", "served"])
        self.passed_on("first call of the problem, or no workspace reserved, during the capture of a graph")

    def test_a_plan_at_the_address_of_another_one_is_read_again(self):
        self.assertEqual(self.exec("A", "B", "A!", "destroyed:A", "A", "B", "A"),
                         ["passed", "passed", "served", "served", "passed", "passed", "served"])

    def test_another_gpu_is_passed_on(self):
        self.assertEqual(self.exec("A", "B", "A!", "device:1", "A", "device:0", "A")[2:], ["served", "passed", "served"])
        self.passed_on("another GPU or context than that of the first product")

    def test_a_forked_child_executes_its_plans(self):
        self.assertEqual(self.exec("A", "B", "A!", "fork", "A")[2:], ["served", "passed", "served"])

    def test_threads(self):
        self.assertEqual(self.exec("A", "B", "A!", "B!", "threads", "A")[2:], ["served", "served", "done", "served"])
        self.assertRegex(self.text(self.report), r"\n  803 convolutions served; ")

    def test_a_kernel_that_fails_leaves_the_plan(self):
        self.assertEqual(self.exec("A", "B", "A!", "A", "A", HOST_GPU_FAIL="run:2"), ["passed"] * 2 + ["served"] + ["passed"] * 2)
        self.passed_on("our code failed")

    def test_no_model_and_no_serving(self):
        self.assertEqual(set(self.exec("A", "B", "A", "B", "A", pick=None, KSCOUT_MODEL_PATH=self.folder)), {"passed"})
        self.assertEqual(set(self.exec("A", "B", "A", "B", "A", options=["--no-serve"])), {"passed"})
        self.assertEqual(set(self.exec("A", "B", "A", "B", "A", KSCOUT_PRELOAD_CONVOLUTIONS="0")), {"passed"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
