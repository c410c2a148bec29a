"""Kernels of one's own in Python: declares a family, measures it, trains a model, and lets it choose.

    python examples/python/own_kernels.py [FOLDER]

The kernels multiply matrices with NumPy, block by block: by rows of C or by columns. Which one is fastest depends on the
sizes. Takes seconds; needs kscout[lab].
"""

import os
import sys
import tempfile

import numpy as np

import kscout


def operands(problem):
    random = np.random.default_rng(problem.m + problem.n)
    a = random.random((problem.m, problem.k), dtype=np.float32)
    b = random.random((problem.k, problem.n), dtype=np.float32)
    return a, b, np.empty((problem.m, problem.n), np.float32)


def multiply(config, arguments):
    a, b, c = arguments
    if config.along == "rows":
        for i in range(0, len(a), config.block):
            np.matmul(a[i : i + config.block], b, out=c[i : i + config.block])
    else:
        for j in range(0, b.shape[1], config.block):
            c[:, j : j + config.block] = a @ b[:, j : j + config.block]
    return c


def main(folder):
    family = kscout.Family(
        "numpy_blocks",
        {"block": [8, 32, 128], "along": ["rows", "columns"]},
        prepare=operands,
        run=multiply,
        reference=lambda arguments: arguments[0] @ arguments[1],
        rules={"no-tiny-loops": ("c.block >= 32 or p.m * p.n <= 16384", "blocks of 8 take too many steps of Python")},
    )
    sizes = [4, 32, 64, 200]
    problems = [f"gemm:{m}x{n}x{k}:fp32:rrr" for m in sizes for n in sizes for k in (32, 128)]
    print(len(family.configs(problems[0])), "configs for", problems[0])

    # Every result is kept at once: when this is stopped, the next run continues.
    sweep = family.sweep(problems, os.path.join(folder, "sweep"), rounds=8)
    print("measured", {status: count for status, count in sweep["status"].items() if count})
    family.train(os.path.join(folder, "model"), folds=4, rounds=60)

    held_out = [f"gemm:{m}x{n}x64:fp32:rrr" for m, n in [(8, 300), (100, 100), (256, 16), (48, 160)]]
    family.sweep(held_out, os.path.join(folder, "held_out"), rounds=8)
    report = family.evaluate(os.path.join(folder, "held_out"))
    print(f"the model's choices on sizes that it has not seen: {report['efficiency']['mean']:.1f} % of the fastest config's speed")
    for problem in held_out:
        chosen = family.select(problem)
        print(f"{problem}: {chosen.config}, predicted {chosen.time_us:.1f} us")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            main(made)
