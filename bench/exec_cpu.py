#!/usr/bin/env python3
"""./dev bench exec_cpu: NumPy's wheel on the CPU alone, and under `kscout exec`, in one run.

Two processes of the same Python take turns: one is started by `kscout exec`, one is not. Both may use the same threads. Products
are fp32, drawn at random, as np.matmul(x, y, out=z): x @ y, x @ y.T and x.T @ y in equal parts. The shortest of --rounds batches
counts.

    RESULT exec_cpu.numpy_geomean  time of NumPy alone over that under kscout exec: above 1 we win; .worst the least
    RESULT exec_cpu.p10            the tenth percentile of the same
    RESULT exec_cpu.passed_ns      time of a call that is passed on, minus that of the BLAS's function
"""
import argparse
import ctypes
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

import peers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
GOALS = {"numpy_geomean": (">=", 1.0), "p10": (">=", 0.9), "passed_ns": ("<=", 100)}
FORMS = ("x @ y", "x @ y.T", "x.T @ y")
MIN_FLOP, MAX_FLOP = 2e5, 4e9
BATCH_SECONDS = 0.02
REST_SECONDS = 0.15  # threads of OpenBLAS that wait actively would take the other process's CPUs
CLASSES = ((2e6, "below 2e6"), (2e8, "2e6 to 2e8"), (MAX_FLOP, "above 2e8"))


# ---- A worker: answers one request per line of its input.

def operands(form, m, n, k):
    import numpy as np
    draw = np.random.default_rng(1)
    x = draw.standard_normal((k, m) if form == "x.T @ y" else (m, k), dtype=np.float32)
    y = draw.standard_normal((n, k) if form == "x @ y.T" else (k, n), dtype=np.float32)
    return x.T if form == "x.T @ y" else x, y.T if form == "x @ y.T" else y, np.empty((m, n), np.float32)


def mean_us(call, calls):
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - begin) / 1e3 / calls


def time_product(form, m, n, k, refined):
    import numpy as np
    x, y, z = operands(form, m, n, k)
    call = lambda: np.matmul(x, y, out=z)  # pylint: disable=unnecessary-lambda-assignment
    for _ in range(13 if refined else 1):
        call()
    quickest = min(mean_us(call, 1) for _ in range(5))  # woken threads may wait for a CPU
    calls = max(1, int(BATCH_SECONDS * 1e6 / max(quickest, 0.1)))
    return mean_us(call, calls)


def time_passed():
    """Nanoseconds by which kscout exec lengthens a small product."""
    import numpy as np
    name = "scipy_cblas_sgemm64_"
    both = getattr(ctypes.CDLL(None), name), getattr(peers.numpy_openblas(), name)
    x = np.ones((16, 16), np.float32)
    at, size = ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(16)
    factors = ctypes.c_float(0.001), ctypes.c_float(0)
    product = np.empty_like(x)
    given = (101, 111, 111, size, size, size, factors[0], at, size, at, size, factors[1], ctypes.c_void_p(product.ctypes.data), size)
    best = [math.inf, math.inf]
    for _ in range(200):
        for i, function in enumerate(both):
            begin = time.perf_counter_ns()
            for _ in range(500):
                function(*given)
            best[i] = min(best[i], (time.perf_counter_ns() - begin) / 500)
    return best[0] - best[1]


def work():
    for line in sys.stdin:
        request = json.loads(line)
        answer = time_passed() if request == "passed" else time_product(*request)
        print(json.dumps(answer), flush=True)


# ---- The run.

class Process:
    def __init__(self, command, env):
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        time.sleep(REST_SECONDS)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("exec_cpu: a process has ended")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def draw_products(count):
    draw = random.Random(20)
    products = []
    while len(products) < count:
        m, n, k = (round(2 ** draw.uniform(3, 12)) for _ in range(3))
        if MIN_FLOP <= 2 * m * n * k <= MAX_FLOP:
            products.append((FORMS[len(products) % len(FORMS)], m, n, k))
    return products


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def show(name, ratios):
    ordered = sorted(ratios)
    print(f"{name:24} {len(ratios):4} products, geometric mean {geomean(ratios):.3f}, P10 {ordered[len(ordered) // 10]:.3f}, "
          f"worst {ordered[0]:.3f}", flush=True)


def result(name, value, digits, unit=""):
    goal = GOALS.get(name)
    met = "" if not goal else f"  (goal {goal[0]} {goal[1]})"
    print(f"RESULT exec_cpu.{name} {value:.{digits}f}{unit}{met}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--products", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=170, help="no product starts later")
    parser.add_argument("--refine", action="store_true", help="kscout exec --refine")
    parser.add_argument("--list", action="store_true", help="print each product")
    asked = parser.parse_args()
    kscout = os.path.join(asked.build, "kscout")
    if not os.path.exists(kscout):
        sys.exit(f"exec_cpu: {kscout} is missing; ./dev build makes it, or give --build")
    print(peers.numpy_about(), flush=True)
    end = time.monotonic() + asked.seconds
    threads = str(len(os.sched_getaffinity(0)))
    env = {"OPENBLAS_NUM_THREADS": threads, **os.environ}
    env.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
    command = [sys.executable, os.path.abspath(__file__), "--work"]
    with tempfile.NamedTemporaryFile("r", prefix="kscout_exec_cpu_") as report:
        options = ["--report", report.name] + (["--refine"] if asked.refine else [])
        pair = Process(command, env), Process([kscout, "exec", *options, "--", *command], env)
        counting_nothing = Process([kscout, "exec", "--", *command], env)
        passed = min(counting_nothing.ask("passed") for _ in range(3))
        counting_nothing.close()
        timed = []
        for product in draw_products(asked.products):
            if time.monotonic() > end:
                break
            best = [math.inf, math.inf]
            for turn in range(asked.rounds):
                for i in (0, 1) if turn % 2 == 0 else (1, 0):
                    best[i] = min(best[i], pair[i].ask([*product, asked.refine]))
            timed.append((product, best[0], best[0] / best[1]))
            if asked.list:
                print(f"{product[0]:8} {product[1]:5} x {product[2]:5} x {product[3]:5} {best[0]:10.1f} us {best[0] / best[1]:.3f}")
        for process in pair:
            process.close()
        print(report.read(), end="")
    for form in FORMS:
        show(form, [ratio for (of, *_), _, ratio in timed if of == form])
    low = 0
    for high, words in CLASSES:
        ratios = [ratio for (_, m, n, k), _, ratio in timed if low < 2 * m * n * k <= high]
        if ratios:
            show(f"{words} operations", ratios)
        low = high
    ratios = sorted(ratio for *_, ratio in timed)
    show(f"all, {threads} threads", ratios)
    result("numpy_geomean", geomean(ratios), 3)
    result("p10", ratios[len(ratios) // 10], 3)
    result("worst", ratios[0], 3)
    result("passed_ns", passed, 0, " ns")


if sys.argv[1:] == ["--work"]:
    work()
else:
    main()
