#!/usr/bin/env python3
"""./dev bench exec_torch: stock PyTorch on a GPU alone, and under `kscout exec`, in one run.

Two processes of the same Python take turns on one GPU: one is started by `kscout exec`, one is not. Needs PyTorch and an
NVIDIA GPU; no other part of the project needs PyTorch. Runs from a copied build, too:

    python3 bench/exec_torch.py --build build/release

Products are those of sets training and llm, drawn at random, plus those of the head of GPT-2: forward (rcr), input
gradient (rrr) and weight gradient (crr) as `torch.mm`. Each result of both processes is compared with float64 on sampled
rows. The training step is GPT-2 with 124M parameters, random weights, 8 x 1,024 tokens and a vocabulary of 50,257 words,
in bf16, eager and as a CUDA graph.

    RESULT exec_torch.gemm_geomean  time of PyTorch alone over that under kscout exec: above 1 we win
    RESULT exec_torch.gemm_p5       the fifth percentile of the same; .gemm_worst the least
    RESULT exec_torch.gpt2_step     the same of a whole training step (wall time); .gpt2_gpu: as a CUDA graph
    RESULT exec_torch.overhead_us   the CPU's time for a served call of torch.mm, minus that of PyTorch alone
    RESULT exec_torch.passed_us     the same for a call that is passed on
"""
import argparse
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

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
TOKENS, SEQUENCE, HIDDEN, HEADS, LAYERS, WORDS, PADDED_WORDS = 8192, 1024, 768, 12, 12, 50257, 50304
MAX_GFLOP, MAX_BYTES = 4000, 4e9
ROUNDS, STEP_ROUNDS, LOSS_STEPS = 5, 7, 20
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
        return getattr(self, request.pop("do"))(**request)

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

    def open(self, m, n, k, layout):
        """Computes a product once, compares rows with float64, and finds how many calls make a sample."""
        torch = self.torch
        self.product = None
        a, b = self.operands(m, n, k, layout)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
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
        return {"error": error / largest if finite else math.inf, "calls": max(3, min(200, int(5000 / max(us, 1))))}

    def sample(self, calls):
        """Microseconds of GPU time per call."""
        torch = self.torch
        a, b, out = self.product
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.mm(a, b, out=out)
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

    # ---- GPT-2

    def build(self, words, graph):
        torch, name = self.torch, f"{words} {graph}"
        if name not in self.steps:
            self.steps[name] = Step(torch, words, graph)
        return name

    def step(self, name, count):
        """Milliseconds per step, and the losses."""
        torch = self.torch
        torch.cuda.synchronize()
        begin = time.perf_counter()
        losses = [self.steps[name].run() for _ in range(count)]
        torch.cuda.synchronize()
        return {"ms": 1e3 * (time.perf_counter() - begin) / count, "losses": [float(loss) for loss in losses]}

    def drop(self, name):
        del self.steps[name]
        self.torch.cuda.empty_cache()


class Step:
    """A training step of GPT-2 on fixed random tokens."""

    def __init__(self, torch, words, graph):
        self.torch, self.words = torch, words
        functional = torch.nn.functional
        torch.manual_seed(2)

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
                self.qkv, self.out = torch.nn.Linear(HIDDEN, 3 * HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
                self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

            def forward(self, x):
                q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
                attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
                return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.places = torch.nn.Embedding(words, HIDDEN), torch.nn.Embedding(SEQUENCE, HIDDEN)
                self.blocks, self.norm = torch.nn.ModuleList(Block() for _ in range(LAYERS)), torch.nn.LayerNorm(HIDDEN)
                for one in self.parameters():
                    if one.dim() == 2:
                        torch.nn.init.normal_(one, std=0.02)

            def forward(self, ids):
                x = self.words(ids) + self.places.weight
                for block in self.blocks:
                    x = block(x)
                logits = self.norm(x) @ self.words.weight.t()
                return functional.cross_entropy(logits[:, :-1].reshape(-1, words), ids[:, 1:].reshape(-1))

        self.model = Model().cuda().bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True, capturable=graph)
        self.ids = torch.randint(0, WORDS, (TOKENS // SEQUENCE, SEQUENCE), device="cuda")
        self.graph = None
        if graph:
            self.capture()

    def compute(self):
        loss = self.model(self.ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def capture(self):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.loss = self.compute()
        self.graph = graph

    def run(self):
        if not self.graph:
            return self.compute()
        self.graph.replay()
        return self.loss.clone()


def work():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        worker = Worker()
        for line in sys.stdin:
            print(json.dumps(worker.answer(json.loads(line))), file=answers)
    except Exception as error:  # pylint: disable=broad-except
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), file=answers)
        sys.exit(1)


# ---- The benchmark.

class Process:
    """A worker, by requests as calls: process.step(name=..., count=3)."""

    def __init__(self, name, before, env):
        self.name = name
        self.child = subprocess.Popen([*before, sys.executable, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, env=env, text=True, bufsize=1)

    def __getattr__(self, request):
        def ask(**values):
            self.child.stdin.write(json.dumps({"do": request, **values}) + "\n")
            line = self.child.stdout.readline()
            answer = json.loads(line) if line else {"failed": f"it ended with {self.child.wait()}"}
            if isinstance(answer, dict) and "failed" in answer:
                sys.exit(f"exec_torch: {self.name}: {request} {values}: {answer['failed']}")
            return answer
        return ask

    def end(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            sys.exit(f"exec_torch: {self.name} ended with {self.child.returncode}")


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
    return list(dict.fromkeys(found + head))


def compare_products(both, problems, csv, until):
    ratios, rows = [], []
    for number, (m, n, k, layout) in enumerate(problems):
        if time.monotonic() > until:
            print(f"exec_torch: time is up after {number} of {len(problems)} products", file=sys.stderr)
            break
        opened = [process.open(m=m, n=n, k=k, layout=layout) for process in both]
        for process, one in zip(both, opened):
            if not one["error"] < MAX_ERROR:
                sys.exit(f"exec_torch: {process.name}: {m}x{n}x{k} {layout}: error {one['error']:.2g} against float64")
        calls = max(one["calls"] for one in opened)
        samples = [[process.sample(calls=calls) for process in both] for _ in range(ROUNDS)]
        alone, ours = (statistics.median(times) for times in zip(*samples))
        for process in both:
            process.close()
        ratios.append(alone / ours)
        rows.append(f"{m},{n},{k},{layout},{alone:.2f},{ours:.2f},{opened[0]['error']:.3g},{opened[1]['error']:.3g}")
        print(f"\r{number + 1} of {len(problems)} products", end="", file=sys.stderr)
    print(file=sys.stderr)
    if csv:
        with open(csv, "w", encoding="utf-8") as file:
            print("m,n,k,layout,alone_us,exec_us,alone_error,exec_error", *rows, sep="\n", file=file)
    ratios.sort()
    faster, slower = sum(ratio > 1.02 for ratio in ratios), sum(ratio < 0.98 for ratio in ratios)
    print(f"{len(ratios)} products, {faster} faster by 2 %, {slower} slower by 2 %")
    print(f"RESULT exec_torch.gemm_geomean {math.exp(statistics.fmean(map(math.log, ratios))):.3f} ratio")
    print(f"RESULT exec_torch.gemm_p5 {ratios[len(ratios) // 20]:.3f} ratio")
    print(f"RESULT exec_torch.gemm_worst {ratios[0]:.3f} ratio")


def compare_steps(both, graph):
    """Steps of both processes and, eager, of PyTorch alone with padded words."""
    names = [process.build(words=WORDS, graph=graph) for process in both]
    sides = list(zip(both, names))
    if not graph:
        sides.append((both[0], both[0].build(words=PADDED_WORDS, graph=False)))
    losses = [process.step(name=name, count=LOSS_STEPS)["losses"] for process, name in sides]
    rounds = [[process.step(name=name, count=3)["ms"] for process, name in sides] for _ in range(STEP_ROUNDS)]
    ms = [statistics.median(times) for times in zip(*rounds)]
    apart = max(abs(a - b) for a, b in zip(losses[0], losses[1]))
    how = "as a CUDA graph" if graph else "eager"
    padded = "" if graph else f", alone with {PADDED_WORDS} words {ms[2]:.2f}"
    print(f"GPT-2 step {how}, ms: alone {ms[0]:.2f}, kscout exec {ms[1]:.2f}{padded}; "
          f"losses of {LOSS_STEPS} steps differ by at most {apart:.4f}")
    print(f"RESULT exec_torch.{'gpt2_gpu' if graph else 'gpt2_step'} {ms[0] / ms[1]:.3f} ratio")
    for process, name in sides:
        process.drop(name=name)


def compare_calls(both):
    for name, (m, n, k) in (("overhead_us", SERVED_SHAPE), ("passed_us", PASSED_SHAPE)):
        rounds = [[process.call_us(m=m, n=n, k=k) for process in both] for _ in range(2 * ROUNDS)]
        alone, ours = (statistics.median(times) for times in zip(*rounds))
        print(f"torch.mm {m}x{n}x{k}, CPU time in us: alone {alone:.2f}, kscout exec {ours:.2f}")
        print(f"RESULT exec_torch.{name} {ours - alone:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="folder of kscout and its libraries")
    parser.add_argument("--count", type=int, default=120, help="products to compare")
    parser.add_argument("--seconds", type=float, default=150, help="time limit of the products")
    parser.add_argument("--csv", help="file for the times of all products")
    parser.add_argument("--report", help="file for the report of kscout exec")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work()
        return
    kscout = os.path.join(asked.build, "kscout")
    for name in ("kscout", "libkscout_preload.so", "libkscout_preload_core.so", "libkscout_cuda.so"):
        if not os.path.exists(os.path.join(asked.build, name)):
            sys.exit(f"exec_torch: {name} is not in {asked.build}; build it where nvcc is installed, or give --build")
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
    with tempfile.TemporaryDirectory() as folder:
        report = asked.report or os.path.join(folder, "report.txt")
        both = [Process("PyTorch alone", [], env), Process("kscout exec", [kscout, "exec", "--report", report, "--"], env)]
        about = [process.about() for process in both][0]
        print(f"{about['gpu']}, PyTorch {about['torch']}, CUDA {about['cuda']}", flush=True)
        compare_calls(both)
        compare_steps(both, graph=False)
        compare_products(both, problems_of(kscout, asked.count), asked.csv, time.monotonic() + asked.seconds)
        compare_steps(both, graph=True)
        for process in both:
            process.end()
        with open(report, encoding="utf-8") as file:
            text = file.read()
    print(text)
    if not re.search(r"^ +[1-9]\d* served;", text, re.MULTILINE):
        sys.exit("exec_torch: kscout exec served nothing; the report says why")


if __name__ == "__main__":
    main()
