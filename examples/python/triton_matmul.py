"""A Triton matmul with 40 configs, chosen by a model: measures, trains, and compares with triton.autotune.

    python examples/python/triton_matmul.py --out runs/triton --sweep --budget 420
    python examples/python/triton_matmul.py --out runs/triton --train
    python examples/python/triton_matmul.py --out runs/triton --bench --budget 420

Without a step, all three run. Needs PyTorch, Triton and a GPU; training needs kscout[lab]. It may be done elsewhere:

    kscout dataset import runs/triton/sweep --out triton.parquet
    kscout train --data triton.parquet --out triton_model        # then here: --bench --model triton_model
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import triton
import triton.language as tl

import kscout


def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):  # fmt: skip
    """C = A * B in 16-bit floats. Blocks walk GROUP_M rows of tiles together, so that they share B in the level-2 cache."""
    block = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = (block // in_group) * GROUP_M
    group_rows = min(tiles_m - first_m, GROUP_M)
    tile_m = first_m + (block % in_group) % group_rows
    tile_n = (block % in_group) // group_rows
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # Rows and columns outside of C read the first ones instead: what they compute is not stored.
    from_a = a + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
    from_b = b + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        of_a = tl.load(from_a, mask=inner[None, :] < left, other=0.0)
        of_b = tl.load(from_b, mask=inner[:, None] < left, other=0.0)
        sums = tl.dot(of_a, of_b, sums)
        from_a += BLOCK_K * stride_ak
        from_b += BLOCK_K * stride_bk
    to_c = c + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(to_c, sums.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


# BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages
SHAPES_OF_BLOCKS = [
    (16, 16, 256, 2, 4), (16, 32, 64, 4, 5), (16, 32, 128, 4, 4), (16, 32, 256, 4, 3), (16, 64, 64, 4, 6),
    (16, 64, 128, 4, 4), (16, 64, 256, 4, 3), (16, 128, 64, 4, 5), (16, 128, 128, 4, 4), (16, 128, 128, 8, 4),
    (16, 256, 64, 4, 4), (16, 256, 128, 8, 3), (32, 32, 128, 4, 4), (32, 64, 64, 4, 5), (32, 64, 128, 4, 4),
    (32, 128, 64, 4, 5), (32, 128, 128, 4, 3), (32, 256, 64, 4, 4), (32, 256, 64, 8, 4), (64, 32, 128, 4, 4),
    (64, 64, 64, 4, 5), (64, 64, 128, 4, 3), (64, 128, 64, 4, 4), (64, 128, 128, 4, 3), (64, 128, 64, 8, 4),
    (64, 256, 64, 4, 3), (64, 256, 64, 8, 4), (128, 32, 64, 4, 5), (128, 64, 64, 4, 4), (128, 64, 128, 4, 3),
    (128, 128, 32, 4, 5), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4), (128, 128, 128, 8, 3), (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 64, 64, 4, 4), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4),
]  # fmt: skip
CONFIGS = [
    {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "num_warps": warps, "num_stages": stages}
    for m, n, k, warps, stages in SHAPES_OF_BLOCKS
]
assert len(CONFIGS) == 40

# (N, K) of linear layers. No held-out pair was trained on, and no held-out M.
TRAINED_LAYERS = [
    (4096, 4096), (6144, 4096), (4096, 14336), (28672, 4096), (8192, 8192), (10240, 8192), (5120, 5120),
    (7168, 2048), (2048, 7168), (1536, 7168), (3072, 3072), (24576, 1536), (1024, 1024), (12288, 4096),
]  # fmt: skip
TRAINED_M = [1, 8, 16, 24, 32, 40, 64, 100, 128, 160, 256, 320, 512, 640, 1024, 1280, 2048, 2560, 4096, 8192]
HELD_OUT_LAYERS = [
    (2560, 2560), (13824, 5120), (5120, 13824), (18432, 7168), (7168, 18432), (8192, 28672), (18944, 3584),
    (1280, 8192), (16384, 2048),
]  # fmt: skip
HELD_OUT_M = [4, 48, 80, 200, 400, 768, 1536, 3000, 6144]


def problem_text(M, N, K, **_others):
    return f"gemm:{M}x{N}x{K}:bf16:rcr"


TRAINED = [problem_text(m, n, k) for n, k in TRAINED_LAYERS for m in TRAINED_M]
# Three of the sizes for each layer, so that all sizes occur.
HELD_OUT = [(HELD_OUT_M[(i + 3 * j) % 9], n, k) for i, (n, k) in enumerate(HELD_OUT_LAYERS) for j in range(3)]


def operands(m, n, k):
    generator = torch.Generator(device="cuda").manual_seed(m + n + k)
    a = torch.randn((m, k), device="cuda", dtype=torch.bfloat16, generator=generator)
    b = torch.randn((n, k), device="cuda", dtype=torch.bfloat16, generator=generator)  # as a linear layer stores it
    return a, b.T, torch.empty((m, n), device="cuda", dtype=torch.bfloat16)


def grid_of(m, n):
    return lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)


def launch(kernel, a, b, c, **config):
    """Runs a kernel, or what stands for one, as in triton.autotune."""
    (m, k), n = a.shape, b.shape[1]
    kernel[grid_of(m, n)](a, b, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1), **config)
    return c


def compile_config(kernel, m, n, k, config):
    """Compiles without operands; the binary is in Triton's cache afterwards, for every process."""
    kernel.warmup(torch.bfloat16, torch.bfloat16, torch.bfloat16, m, n, k, k, 1, 1, k, n, 1, grid=(1,), **config)


def compile_numbered(number):
    """Compiles one config for sizes that 16 divides, and for an M that it does not divide."""
    for m in (16, 4):
        compile_config(triton.jit(matmul), m, 2560, 2560, CONFIGS[number])


def make_family(jobs):
    kernel = triton.jit(matmul)

    return kscout.Family(
        "triton_matmul",
        configs=CONFIGS,
        device="cuda",
        prepare=lambda problem: operands(problem.m, problem.n, problem.k),
        compile=lambda problem, config: compile_config(kernel, problem.m, problem.n, problem.k, config),
        compile_jobs=jobs,
        run=lambda config, arguments: launch(kernel, *arguments, **config),
        reference=lambda arguments: arguments[0] @ arguments[1],
        tolerance=2e-2,  # bf16 results, summed in other orders
        rules={"fits": ("(c.block_m + c.block_n) * c.block_k * 2 * c.num_stages <= 232448", "227 KiB of shared memory")},
        default=CONFIGS[22],
    )


def autotuned():
    configs = []
    for config in CONFIGS:
        meta = {name: value for name, value in config.items() if not name.startswith("num_")}
        configs.append(triton.Config(meta, num_warps=config["num_warps"], num_stages=config["num_stages"]))
    return triton.autotune(configs=configs, key=["M", "N", "K"])(triton.jit(matmul))


# ---- The comparison with triton.autotune.


def seconds_of(call):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


class Rounds:
    """Times all configs of a problem in interleaved rounds with cold caches: the median of each, in microseconds."""

    def __init__(self):
        self.kernel = triton.jit(matmul)
        self.other = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def medians(self, arguments, rounds=15):
        events = []
        for config in CONFIGS:
            launch(self.kernel, *arguments, **config)
        for _ in range(rounds):
            for i, config in enumerate(CONFIGS):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self.other.zero_()
                begin.record()
                launch(self.kernel, *arguments, **config)
                end.record()
                events.append((i, begin, end))
            torch.cuda.synchronize()
        samples = [[] for _ in CONFIGS]
        for i, begin, end in events:
            samples[i].append(begin.elapsed_time(end) * 1e3)
        return [statistics.median(some) for some in samples]


def position(config):
    return CONFIGS.index({name: int(value) for name, value in config.items()})


def position_of_triton(config):
    return position({**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages})


def first_result(who, model, shape):
    """Seconds from loading to the first result: of a fresh process, with an empty cache of Triton. Prints JSON."""
    arguments = operands(*shape)
    begin = time.perf_counter()
    if who == "autotune":
        tuned = autotuned()
    else:
        family = make_family(1)
        family.load(model)
        tuned = kscout.triton_autotuner(triton.jit(matmul), family, problem=problem_text, key=["M", "N", "K"], timed=int(who))
    seconds = seconds_of(lambda: launch(tuned, *arguments))
    print(json.dumps({"seconds": seconds, "with_loading": time.perf_counter() - begin}))


def first_results(model, shape):
    found = {}
    for who in ("autotune", "2", "1"):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, os.path.abspath(__file__), "--first-result", who, "--shape", *map(str, shape), "--model", model]
            done = subprocess.run(command, env={**os.environ, "TRITON_CACHE_DIR": cache}, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"--first-result {who} failed:\n{done.stdout}{done.stderr}")
            found[who] = json.loads(done.stdout.strip().splitlines()[-1])["with_loading"]
    return found


def bench(family, model, out, budget, jobs):
    end = time.monotonic() + budget
    first = first_results(model, (512, 4096, 4096))
    print(f"before the first result, nothing compiled: triton.autotune {first['autotune']:.2f} s, model {first['1']:.2f} s, "
          f"model and the timing of two {first['2']:.2f} s", flush=True)  # fmt: skip
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:  # before this process opens the GPU
        list(pool.map(compile_numbered, range(len(CONFIGS))))
    family.load(model)
    # Kernels of their own, so that none finds what another one loaded. All find binaries in Triton's cache.
    contestants = {"autotune": autotuned()}
    for timed in (1, 2):
        contestants[f"model_{timed}"] = kscout.triton_autotuner(
            triton.jit(matmul), family, problem=problem_text, key=["M", "N", "K"], timed=timed
        )
    rounds = Rounds()
    rows = []
    for shape in HELD_OUT:
        if time.monotonic() > end:
            print(f"the budget of {budget:g} s ended after {len(rows)} of {len(HELD_OUT)} shapes")
            break
        arguments = operands(*shape)
        times = rounds.medians(arguments)  # also compiles what is not in the cache
        row = {"problem": problem_text(*shape), "best_us": min(times)}
        for name, tuned in contestants.items():
            first_s = seconds_of(lambda: launch(tuned, *arguments))
            again_s = statistics.median(seconds_of(lambda: launch(tuned, *arguments)) for _ in range(5))
            picked = position_of_triton(tuned.best_config) if name == "autotune" else position(tuned.selected[shape])
            row[name] = {"efficiency": min(times) / times[picked], "prepare_s": max(first_s - again_s, 0), "config": CONFIGS[picked]}
        rows.append(row)
        print(row["problem"], " ".join(f"{name} {row[name]['efficiency']:.3f} {row[name]['prepare_s'] * 1e3:.1f} ms;" for name in contestants), flush=True)
    if not rows:
        sys.exit("the budget ended before the first shape: give a larger --budget")
    summary = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__, "shapes": len(rows)}
    summary["first_result_s"] = first
    prepare_s = {name: statistics.mean(row[name]["prepare_s"] for row in rows) for name in contestants}
    for name in contestants:
        efficiencies = [row[name]["efficiency"] for row in rows]
        summary[name] = {
            "efficiency_mean_percent": 100 * statistics.mean(efficiencies),
            "efficiency_worst_percent": 100 * min(efficiencies),
            "prepare_mean_ms": 1e3 * prepare_s[name],
            "prepare_median_ms": 1e3 * statistics.median(row[name]["prepare_s"] for row in rows),
            "prepare_share_percent": 100 * prepare_s[name] / prepare_s["autotune"],
        }
    with open(os.path.join(out, "bench.json"), "w") as file:
        json.dump({"summary": summary, "rows": rows}, file, indent=1)
    print(json.dumps(summary, indent=1))
    for name in ("model_1", "model_2"):
        print(f"RESULT triton_{name}_efficiency {summary[name]['efficiency_mean_percent']:.2f} % (bar: 96)")
        print(f"RESULT triton_{name}_preparation {summary[name]['prepare_share_percent']:.3f} % of triton.autotune (bar: 1)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="runs/triton", help="folder of data and results")
    parser.add_argument("--model", help="model folder (default: OUT/model)")
    parser.add_argument("--sweep", action="store_true", help="measure the training problems; the same command continues")
    parser.add_argument("--train", action="store_true", help="train a model on the sweep")
    parser.add_argument("--bench", action="store_true", help="compare with triton.autotune on held-out shapes")
    parser.add_argument("--budget", type=float, default=420, help="seconds for the sweep, and seconds for the comparison")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1), help="processes that compile")
    parser.add_argument("--first-result", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    model = given.model or os.path.join(given.out, "model")
    if given.first_result:
        return first_result(given.first_result, model, given.shape)
    all_steps = not (given.sweep or given.train or given.bench)
    os.makedirs(given.out, exist_ok=True)
    family = make_family(given.jobs)
    sweep = os.path.join(given.out, "sweep")
    if given.sweep or all_steps:
        summary = family.sweep(TRAINED, sweep, budget=given.budget, progress=True)
        print(json.dumps(summary, indent=1))
    if given.train or all_steps:
        print(json.dumps(family.train(model, data=sweep), indent=1))
    if given.bench or all_steps:
        bench(family, model, given.out, given.budget, given.jobs)


if __name__ == "__main__":
    main()
