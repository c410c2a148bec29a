#!/usr/bin/env python3
"""./dev bench exec_torch: stock PyTorch on a GPU alone, and under `kscout exec`, in one run.

Two processes of the same Python take turns on one GPU: one is started by `kscout exec`, one is not. Needs PyTorch and an
NVIDIA GPU; no other part of the project needs PyTorch. Runs from a copied build, too, with exec_torch_models.py beside it:

    python3 bench/exec_torch.py --build build/release

Parts (--parts, in this order by default; --seconds limits the run):

    calls             the CPU's time of a call of `torch.mm`
    gpt2, gpt2_graph  a training step of GPT-2: 124M parameters, 8 x 1,024 tokens, a vocabulary of 50,257 words
    llama, llama_graph  the same of one block and the head of Llama-3-8B: 2 x 2,048 tokens, 128,256 words
    vit, vit_graph    the same of ViT-L/16: 64 images of 224 x 224
    generation        128 tokens of prompt and 64 tokens one by one, of GPT-2 and of that block of Llama, 1 and 8 sequences; and
                      ViT-L/16 on 64 images without gradients
    products          --products products of sets training and llm, drawn at random, and those of the head of GPT-2: forward
                      (rcr), input gradient (rrr) and weight gradient (crr) as `torch.mm`. Each result of both processes is
                      compared with float64 on sampled rows

Models have random weights and run in bf16, eager or as a CUDA graph. With --refine, `kscout exec --refine` is measured after
it has timed its picks; its decisions go to a file of this run, or to KSCOUT_DB. With --guard, `kscout exec --guard` is
measured: ratios are then 1, but for the guard's own time. Each part prints its results, and the summary at the end repeats all
of them beside their goals.

    RESULT exec_torch.gemm_geomean  time of PyTorch alone over that under kscout exec: above 1 we win
    RESULT exec_torch.gemm_p5       the fifth percentile of the same; .gemm_worst the least; .gemm_30us_*: of products that take
                                    30 us or more
    RESULT exec_torch.gpt2_step     the same of a whole training step (wall time); .gpt2_gpu: as a CUDA graph; also llama, vit
    RESULT exec_torch.gpt2_losses   by how much the losses of 20 steps differ at most
    RESULT exec_torch.gpt2_generate1  the ratio for a prompt and its tokens; .gpt2_generate8: of 8 sequences; .._graph: each token
                                      is a replay of a CUDA graph; also llama; .vit_infer: the images
    RESULT exec_torch.generate_losses  by how much the losses of all these differ at most
    RESULT exec_torch.overhead_us   the CPU's time for a served call of torch.mm, minus that of PyTorch alone
    RESULT exec_torch.passed_us     the same for a call that is passed on
"""
import argparse
import itertools
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from exec_torch_models import (GENERATED, HIDDEN, PADDED_WORDS, PROMPT, TOKENS, VIT_IMAGES, WORDS, Generation, Inference, Step)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
PARTS = ("calls", "gpt2", "gpt2_graph", "llama", "llama_graph", "vit", "vit_graph", "generation", "products")
GOALS = {"gemm_geomean": (">=", 1.05), "gemm_p5": (">=", 0.97), "gemm_worst": (">=", 0.9), "gpt2_step": (">=", 1.25),
         "gpt2_gpu": (">=", 1.3), "overhead_us": ("<=", 3), "passed_us": ("<=", 0.15)}
MAX_GFLOP, MAX_BYTES = 4000, 4e9
PROCESSORS = 4
ROUNDS, STEP_ROUNDS, LOSS_STEPS = 5, 7, 20
QUEUEING_CYCLES = 100_000  # of the GPU's clock, in which the CPU queues a call
SETTLE_CALLS = 16  # of a product, until `kscout exec --refine` has timed it
PART_SECONDS = 25  # a part of a model starts only while so many are left
SERVED_SHAPE, PASSED_SHAPE = (96, 120, 4096), (16, 16, 16)
MAX_ERROR = 2e-2  # of a bf16 result, relative to the largest element


# ---- A worker: answers one request per line of its input.

class Worker:
    def __init__(self):
        import torch
        self.torch = torch
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch finds no GPU")
        self.steps = {}
        self.product = None

    def answer(self, request):
        try:
            return getattr(self, request.pop("do"))(**request)
        except Exception as error:  # pylint: disable=broad-except
            self.steps.clear()
            self.close()
            return {"failed": f"{type(error).__name__}: {error}"}

    def about(self):
        return {"gpu": self.torch.cuda.get_device_name(), "torch": self.torch.__version__, "cuda": self.torch.version.cuda}

    def operands(self, m, n, k, layout):
        """A and B of the row-major product, in memory as the layout says."""
        self.torch.manual_seed(1)

        def matrix(rows, columns, row_major):
            shape = (rows, columns) if row_major else (columns, rows)
            made = self.torch.rand(shape, device="cuda").sub_(0.5).bfloat16()
            return made if row_major else made.t()
        return matrix(m, k, layout[0] == "r"), matrix(k, n, layout[1] == "r")

    def open(self, m, n, k, layout, settle):
        """Computes a product, compares rows with float64, and finds how many calls make a sample."""
        torch = self.torch
        self.product = None
        a, b = self.operands(m, n, k, layout)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        for _ in range(settle):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        torch.mm(a, b, out=out)
        rows = torch.unique(torch.linspace(0, m - 1, min(m, 16), device="cuda").long())
        # In pieces: float64 of all of B may not fit.
        error, largest = 0.0, 1e-30
        for at in range(0, n, 4096):
            exact = a[rows].double() @ b[:, at:at + 4096].double()
            error = max(error, (out[rows, at:at + 4096].double() - exact).abs().max().item())
            largest = max(largest, exact.abs().max().item())
        finite = bool(torch.isfinite(out.sum(dtype=torch.float32)).item())
        self.product = a, b, out
        us = self.sample(3)
        return {"error": error / largest if finite else math.inf, "calls": max(3, min(100, int(5000 / max(us, 1))))}

    def sample(self, calls):
        """Microseconds of GPU time per call. The GPU is kept busy until all calls are queued: it never waits for the CPU."""
        torch = self.torch
        a, b, out = self.product
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.mm(a, b, out=out)
        torch.cuda._sleep(calls * QUEUEING_CYCLES)  # pylint: disable=protected-access
        begin.record()
        for _ in range(calls):
            torch.mm(a, b, out=out)
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end) / calls

    def close(self):
        self.product = None
        self.torch.cuda.empty_cache()

    def call_us(self, m, n, k):
        """Microseconds of the CPU per call, while the GPU's queue does not fill."""
        torch = self.torch
        a, b = self.operands(m, n, k, "rc")
        out = torch.empty((m, n), device="cuda", dtype=torch.bfloat16)
        for _ in range(20):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(300):
            torch.mm(a, b, out=out)
        took = time.perf_counter() - begin
        torch.cuda.synchronize()
        return 1e6 * took / 300

    # ---- Models

    def build(self, model, graph, settle, words=None):
        """A training step."""
        name = f"{model} {words} {graph}"
        if name not in self.steps:
            self.steps[name] = Step(self.torch, model, words, graph, settle)
        return name

    def build_generation(self, model, batch, graph, settle):
        self.steps["generation"] = (Generation(self.torch, model, batch, graph, settle) if model != "vit" else
                                    Inference(self.torch, graph, settle))
        return "generation"

    def step(self, name, count):
        """Milliseconds per run of a model, and all losses."""
        torch = self.torch
        torch.cuda.synchronize()
        begin = time.perf_counter()
        losses = [self.steps[name].run() for _ in range(count)]
        torch.cuda.synchronize()
        return {"ms": 1e3 * (time.perf_counter() - begin) / count, "losses": torch.stack(losses).flatten().tolist()}

    def drop(self, name):
        self.steps.pop(name, None)
        self.torch.cuda.empty_cache()


def answer_requests(worker_class):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        worker = worker_class()
        for line in sys.stdin:
            print(json.dumps(worker.answer(json.loads(line))), file=answers)
    except Exception as error:  # pylint: disable=broad-except
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), file=answers)
        sys.exit(1)


# ---- The benchmark.

class Process:
    """A worker, by requests as calls: process.step(name=..., count=3)."""

    def __init__(self, name, before, env, script):
        self.name = name
        # Both on the same processors: those of a shared host differ in speed.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
        self.child = subprocess.Popen([*before, sys.executable, script, "--worker"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, env=env, text=True, bufsize=1)

    def __getattr__(self, request):
        def ask(**values):
            try:
                self.child.stdin.write(json.dumps({"do": request, **values}) + "\n")
                line = self.child.stdout.readline()
            except OSError:
                line = ""
            answer = json.loads(line) if line else {"failed": f"it ended with {self.child.wait()}"}
            if isinstance(answer, dict) and "failed" in answer:
                raise PartFailed(f"{self.name}: {request} {values}: {answer['failed']}")
            return answer
        return ask

    def end(self):
        """Whether it ended well."""
        self.child.stdin.close()
        return self.child.wait() == 0


class PartFailed(Exception):
    pass


class Results:
    """Prints results, and all of them again beside their goals."""

    def __init__(self, bench, goals):
        self.bench, self.goals, self.all = bench, goals, {}

    def add(self, name, value, unit, digits=3):
        self.all[name] = value, unit, digits
        print(f"RESULT {self.bench}.{name} {value:.{digits}f} {unit}", flush=True)

    def print_summary(self):
        print("\nsummary")
        for name, (value, unit, digits) in self.all.items():
            goal = ""
            if name in self.goals:
                sign, bound = self.goals[name]
                met = value >= bound if sign == ">=" else value <= bound
                goal = f"  goal {sign} {bound}: {'met' if met else 'missed'}"
            print(f"  {name:22} {value:10.{digits}f} {unit:6}{goal}")


def problems_of(kscout, count):
    """(m, n, k, layout) of the products to compare."""
    found = []
    for name in ("training", "llm"):
        command = [kscout, "problems", name, "--dtype", "bf16", "--layout", "rcr,rrr,crr", "--count", str(count), "--seed", "46",
                   "--max-gflop", str(MAX_GFLOP), "--max-bytes", str(MAX_BYTES)]
        lines = subprocess.run(command, text=True, check=True, capture_output=True).stdout.splitlines()
        of_set = [(*map(int, match.group(1).split("x")), match.group(2)) for match in
                  (re.match(r"gemm:(\d+x\d+x\d+):bf16:(rcr|rrr|crr)(:weight=\S+)?$", line) for line in lines) if match]
        found += random.Random(46).sample(of_set, min(len(of_set), count // 2))
    head = [(TOKENS, WORDS, HIDDEN, "rcr"), (TOKENS, HIDDEN, WORDS, "rrr"), (WORDS, HIDDEN, TOKENS, "crr")]
    random.Random(46).shuffle(found)  # time may end before the last one
    return list(dict.fromkeys(head + found))


def compare_products(both, results, problems, asked, until):
    rows, wrong = [], []
    settle = SETTLE_CALLS if asked.refine else 0
    for number, (m, n, k, layout) in enumerate(problems):
        if time.monotonic() > until:
            print(f"exec_torch: time is up after {number} of {len(problems)} products", file=sys.stderr)
            break
        opened = [process.open(m=m, n=n, k=k, layout=layout, settle=settle) for process in both]
        for process, one in zip(both, opened):
            if not one["error"] < MAX_ERROR:
                wrong.append(f"{process.name}: {m}x{n}x{k} {layout}: error {one['error']:.2g} against float64")
        calls = max(one["calls"] for one in opened)
        samples = [[process.sample(calls=calls) for process in both] for _ in range(ROUNDS)]
        alone, ours = (statistics.median(times) for times in zip(*samples))
        for process in both:
            process.close()
        rows.append((m, n, k, layout, alone, ours, *(one["error"] for one in opened)))
        print(f"\r{number + 1} of {len(problems)} products", end="", file=sys.stderr)
    print(file=sys.stderr)
    if not rows:
        raise PartFailed("no time is left for products")
    if asked.csv:
        with open(asked.csv, "w", encoding="utf-8") as file:
            print("m,n,k,layout,alone_us,exec_us,alone_error,exec_error", file=file)
            for m, n, k, layout, alone, ours, *errors in rows:
                print(f"{m},{n},{k},{layout},{alone:.2f},{ours:.2f},{errors[0]:.3g},{errors[1]:.3g}", file=file)
    by_ratio = sorted((alone / ours, alone, ours, f"{m}x{n}x{k} {layout}") for m, n, k, layout, alone, ours, *_ in rows)
    for ratio, alone, ours, name in by_ratio[:5] + by_ratio[-5:]:
        print(f"  {name:28} alone {alone:9.1f} us, kscout exec {ours:9.1f} us, ratio {ratio:.3f}")
    for prefix, least_us in (("gemm", 0), ("gemm_30us", 30)):
        ratios = [ratio for ratio, alone, *_ in by_ratio if alone >= least_us]
        if not ratios:
            continue
        faster, slower = sum(ratio > 1.02 for ratio in ratios), sum(ratio < 0.98 for ratio in ratios)
        print(f"{len(ratios)} products of {least_us} us or more, {faster} faster by 2 %, {slower} slower by 2 %")
        results.add(f"{prefix}_geomean", math.exp(statistics.fmean(map(math.log, ratios))), "ratio")
        results.add(f"{prefix}_p5", ratios[len(ratios) // 20], "ratio")
        results.add(f"{prefix}_worst", ratios[0], "ratio")
    if wrong:
        raise PartFailed(f"{len(wrong)} results are wrong: {'; '.join(wrong[:5])}")


def take_turns(sides, count, rounds, runs):
    """Losses of `count` runs, and the median milliseconds of a run, of each side: (process, name of its model)."""
    losses = [process.step(name=name, count=count)["losses"] for process, name in sides]
    times = [[process.step(name=name, count=runs)["ms"] for process, name in sides] for _ in range(rounds)]
    return losses, [statistics.median(of_side) for of_side in zip(*times)]


def largest_difference(losses):
    return max(abs(a - b) for a, b in zip(losses[0], losses[1]))


def compare_steps(both, results, model, graph, asked):
    """Steps of both processes and, of GPT-2 eager, of PyTorch alone with padded words."""
    settle = SETTLE_CALLS if asked.refine else 3
    words = WORDS if model == "gpt2" else None
    sides = []
    try:
        for process in both:
            sides.append((process, process.build(model=model, words=words, graph=graph, settle=settle)))
        if words and not graph:
            sides.append((both[0], both[0].build(model=model, words=PADDED_WORDS, graph=False, settle=settle)))
        losses, ms = take_turns(sides, LOSS_STEPS, STEP_ROUNDS, 3)
    finally:
        for process, name in sides:
            process.drop(name=name)
    how = "as a CUDA graph" if graph else "eager"
    padded = f", alone with {PADDED_WORDS} words {ms[2]:.2f}" if len(ms) > 2 else ""
    print(f"{model} step {how}, ms: alone {ms[0]:.2f}, kscout exec {ms[1]:.2f}{padded}")
    results.add(f"{model}_{'gpu' if graph else 'step'}", ms[0] / ms[1], "ratio")
    results.add(f"{model}_losses{'_graph' if graph else ''}", largest_difference(losses), "nats", 5)


def compare_generation(both, results, asked):
    settle = SETTLE_CALLS if asked.refine else 3
    difference = 0
    for model, batch, graph in itertools.product(("gpt2", "llama", "vit"), (1, 8), (False, True)):
        images = model == "vit"
        if images and batch > 1:
            continue
        sides = []
        try:
            for process in both:
                sides.append((process, process.build_generation(model=model, batch=batch, graph=graph, settle=settle)))
            losses, ms = take_turns(sides, 1, STEP_ROUNDS, 3 if images else 1)
        finally:
            for process, name in sides:
                process.drop(name=name)
        what = f"{VIT_IMAGES} images" if images else f"{batch} x ({PROMPT} tokens of prompt and {GENERATED} more)"
        print(f"{model} {what}, {'CUDA graph' if graph else 'eager'}, ms: alone {ms[0]:.2f}, kscout exec {ms[1]:.2f}")
        results.add(f"{model}_{'infer' if images else f'generate{batch}'}{'_graph' if graph else ''}", ms[0] / ms[1], "ratio")
        difference = max(difference, largest_difference(losses))
    results.add("generate_losses", difference, "nats", 5)


def compare_calls(both, results):
    for name, (m, n, k) in (("overhead_us", SERVED_SHAPE), ("passed_us", PASSED_SHAPE)):
        rounds = [[process.call_us(m=m, n=n, k=k) for process in both] for _ in range(2 * ROUNDS)]
        alone, ours = (statistics.median(times) for times in zip(*rounds))
        print(f"torch.mm {m}x{n}x{k}, CPU time in us: alone {alone:.2f}, kscout exec {ours:.2f}")
        results.add(name, ours - alone, "us", 2)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="folder of kscout and its libraries")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to measure, comma-separated, in their order")
    parser.add_argument("--products", type=int, default=120, help="products to compare")
    parser.add_argument("--seconds", type=float, default=450, help="time limit of the run: later parts are left out")
    parser.add_argument("--refine", action="store_true", help="measure `kscout exec --refine`")
    parser.add_argument("--guard", action="store_true", help="measure `kscout exec --guard`, which serves nothing")
    parser.add_argument("--csv", help="file for the times of all products")
    parser.add_argument("--report", help="file for the report of kscout exec")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.parts = asked.parts.split(",")
    for part in asked.parts:
        if part not in PARTS:
            parser.error(f"--parts {part}: no such part; there are {', '.join(PARTS)}")
    if asked.products < 2:
        parser.error(f"--products {asked.products}: at least 2")
    return asked


def measure(both, results, kscout, asked, until):
    """Returns the parts that failed."""
    failed = []
    for part in asked.parts:
        model, _, graph = part.partition("_")
        try:
            if part == "calls":
                compare_calls(both, results)
            elif part == "products":
                compare_products(both, results, problems_of(kscout, asked.products), asked, until)
            elif time.monotonic() + PART_SECONDS > until:
                raise PartFailed("no time is left")
            elif part == "generation":
                compare_generation(both, results, asked)
            else:
                compare_steps(both, results, model, bool(graph), asked)
        except PartFailed as error:
            print(f"exec_torch: {part}: {error}", file=sys.stderr)
            failed.append(part)
    return failed


def main():
    asked = arguments()
    if asked.worker:
        answer_requests(Worker)
        return
    until = time.monotonic() + asked.seconds
    kscout = os.path.join(asked.build, "kscout")
    for name in ("kscout", "libkscout_preload.so", "libkscout_preload_core.so", "libkscout_cuda.so"):
        if not os.path.exists(os.path.join(asked.build, name)):
            sys.exit(f"exec_torch: {name} is not in {asked.build}; build it where nvcc is installed, or give --build")
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
    results = Results("exec_torch", GOALS)
    with tempfile.TemporaryDirectory() as folder:
        env.setdefault("KSCOUT_DB", os.path.join(folder, "decisions.sqlite"))
        report = asked.report or os.path.join(folder, "report.txt")
        under = [kscout, "exec", *(f"--{how}" for how in ("refine", "guard") if getattr(asked, how)), "--report", report, "--"]
        script = os.path.abspath(__file__)
        both = [Process("PyTorch alone", [], env, script), Process("kscout exec", under, env, script)]
        try:
            about = [process.about() for process in both][0]
        except PartFailed as error:
            sys.exit(f"exec_torch: {error}")
        print(f"{about['gpu']}, PyTorch {about['torch']}, CUDA {about['cuda']}", flush=True)
        failed = measure(both, results, kscout, asked, until)
        failed += [process.name for process in both if not process.end()]
        with open(report, encoding="utf-8") as file:
            text = file.read()
    print(text)
    results.print_summary()
    if not re.search(r"^ +[1-9]\d* served;", text, re.MULTILINE):
        sys.exit("exec_torch: kscout exec served nothing; the report says why")
    if failed:
        sys.exit(f"exec_torch: not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
