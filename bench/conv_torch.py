#!/usr/bin/env python3
"""./dev bench conv_torch: convolutions of KernelScout's dispatcher against PyTorch on the CPU, in one run.

Needs PyTorch, which no other part of the project needs. For each line of bench/conv_torch.txt, both sides compute the same tensors;
results are compared. Our time is one call of the C interface with a plain filter: the choice (cached after the first call), packing
and the kernel. PyTorch's time is the better of its two memory formats, channels last and channels first. Samples of all sides take
turns, with a pause before each, because the threads of an OpenMP library go on spinning after a call.

    RESULT conv_torch.<direction>_geomean  PyTorch's time over ours: above 1 we win
    RESULT conv_torch.<direction>_p10      the tenth percentile of the same
"""
import argparse
import ctypes
import math
import os
import re
import statistics
import sys
import time

import peers  # before PyTorch
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
ROUNDS, SAMPLE_S, PAUSE_S = 7, 0.004, 0.02


class Buffers(ctypes.Structure):
    """kscout_conv_buffers."""
    _fields_ = [("in_", ctypes.c_void_p), ("wei", ctypes.c_void_p), ("out", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t), ("kind", ctypes.c_int32),
                ("ordinal", ctypes.c_int32), ("reserved", ctypes.c_int64 * 5)]


class KernelScout:
    def __init__(self, library):
        self.c = ctypes.CDLL(library)
        self.c.kscout_last_error.restype = ctypes.c_char_p
        self.dispatcher = ctypes.c_void_p()
        self.check(self.c.kscout_dispatcher_make(None, None, ctypes.byref(self.dispatcher)))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.kscout_last_error().decode())

    def call(self, line, tensors):
        """A function that computes the problem on tensors (in, wei, out), channels last."""
        problem = ctypes.create_string_buffer(1024)  # a kscout_conv
        self.check(self.c.kscout_conv_parse(line.encode(), problem))
        buffers = Buffers()
        self.c.kscout_conv_buffers_init(ctypes.byref(buffers), *(ctypes.c_void_p(t.data_ptr()) for t in tensors))
        at = ctypes.byref(buffers)
        return lambda: self.check(self.c.kscout_run_conv(self.dispatcher, problem, at, None))


def problem_of(line):
    """Direction and arguments of torch's functions."""
    op, image, weights, *rest = line.split(":")
    fields = dict(part.split("=") for part in rest if "=" in part)
    n, c, h, w = map(int, image.split("x"))
    k, y, x = map(int, weights.split("x"))

    def pair(name):
        def one(axis):
            return int(fields.get(f"{name}_{axis}", both[0 if axis == "h" else -1]))
        both = [int(v) for v in fields.get(name, "0" if name == "pad" else "1").split("x")]
        return [one("h"), one("w")]

    groups = int(fields.get("g", 1))
    return op, (n, c, h, w), (k, c // groups, y, x), {"stride": pair("stride"), "padding": pair("pad"),
                                                      "dilation": pair("dilation"), "groups": groups}


def torch_call(op, x, w, grad, how):
    """A function that returns the tensor that the direction computes."""
    if op == "conv_fwd":
        return lambda: torch.nn.functional.conv2d(x, w, **how)
    mask = [op == "conv_bwd_data", op == "conv_bwd_weight", False]
    index = mask.index(True)
    return lambda: torch.ops.aten.convolution_backward(grad, x, w, None, how["stride"], how["padding"], how["dilation"], False, [0, 0],
                                                       how["groups"], mask)[index]


def sample(call):
    """Microseconds of one call, on average over a few milliseconds."""
    time.sleep(PAUSE_S)
    call()
    calls, begin = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        took = time.perf_counter() - begin
        if took > SAMPLE_S:
            return 1e6 * took / calls


def compare(scout, line):
    """Medians in microseconds: ours, PyTorch's channels last, channels first."""
    op, image, weights, how = problem_of(line)
    torch.manual_seed(1)
    x, w = torch.rand(image) - 0.5, torch.rand(weights) - 0.5
    grad = torch.rand(torch.nn.functional.conv2d(x, w, **how).shape) - 0.5
    last = [t.contiguous(memory_format=torch.channels_last) for t in (x, w, grad)]
    # Ours writes to one of these; PyTorch allocates its result in each call.
    ours = [t.clone(memory_format=torch.preserve_format) for t in last]
    result = ours[{"conv_fwd": 2, "conv_bwd_data": 0, "conv_bwd_weight": 1}[op]]
    result.fill_(float("nan"))
    calls = [scout.call(line, ours), torch_call(op, *last, how), torch_call(op, x, w, grad, how)]
    calls[0]()
    expected = calls[2]()
    error = (result - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
    if not error < 1e-3:
        raise RuntimeError(f"{line}: results differ by {float(error):.2g} of the largest element")
    rounds = [[sample(call) for call in calls] for _ in range(ROUNDS)]
    return [statistics.median(one) for one in zip(*rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "build/release/libkscout.so"), help="libkscout.so")
    parser.add_argument("--problems", default=os.path.join(ROOT, "bench/conv_torch.txt"))
    parser.add_argument("--op", default="", help="only this direction")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--csv", help="file for the times of all problems")
    asked = parser.parse_args()
    os.environ.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
    if len(os.sched_getaffinity(0)) != asked.threads:
        sys.exit(f"conv_torch: {len(os.sched_getaffinity(0))} processors are allowed and --threads is {asked.threads}; "
                 f"start it with `taskset -c 0-{asked.threads - 1}`")
    print(peers.torch_about(), flush=True)
    scout = KernelScout(asked.library)
    torch.set_num_threads(asked.threads)
    torch.set_grad_enabled(False)
    with open(asked.problems, encoding="utf-8") as file:
        lines = [line.strip() for line in file if re.match(rf"{asked.op or 'conv_'}[a-z_]*:", line)]
    rows = []
    for number, line in enumerate(lines):
        rows.append((line, *compare(scout, line)))
        print(f"\r{number + 1} of {len(lines)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    if asked.csv:
        with open(asked.csv, "w", encoding="utf-8") as file:
            print("problem,ours_us,torch_channels_last_us,torch_channels_first_us", file=file)
            for line, *times in rows:
                print(line, *(f"{t:.3f}" for t in times), sep=",", file=file)
    for op in dict.fromkeys(row[0].split(":")[0] for row in rows):
        ratios = sorted(min(last, first) / mine for line, mine, last, first in rows if line.startswith(op + ":"))
        geomean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{op}: {len(ratios)} problems, {asked.threads} threads, worst {ratios[0]:.3f}, "
              f"median {ratios[len(ratios) // 2]:.3f}")
        print(f"RESULT conv_torch.{op}_geomean {geomean:.3f} ratio")
        print(f"RESULT conv_torch.{op}_p10 {ratios[len(ratios) // 10]:.3f} ratio")


main()
