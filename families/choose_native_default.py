#!/usr/bin/env python3
"""Chooses rule set `default` of provider native among the configs of rule set `broad`.

    python3 families/choose_native_default.py            # prints the blocks of both native_*.toml
    python3 families/choose_native_default.py --report   # what they reach on the held-out problems of each CPU

Reads the problems of data/<op>_fp32_<cpu>.*train.parquet that were measured with `broad`. Configs of different instruction sets
are one candidate when they come from the same line of the rule set: heights of register tiles are matched by the table HEIGHTS,
widths are counted in vectors. The greedy choice adds the candidate that gains most on average over the CPUs that are below the
goal, until the best chosen config of each problem has GOAL of the best speed on average, on every CPU: first on the problems of
up to 0.2 GFLOP, with which all data were measured at first, then on all. At last it drops what later choices replace, so that
no CPU loses more than SLACK. Needs pyarrow and numpy.
"""
import argparse
import collections
import glob
import math
import os
import re

import numpy as np
import pyarrow.parquet as pq

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
GOAL = {"gemm": 0.998, "conv_fwd": 0.996, "conv_bwd_data": 0.996, "conv_bwd_weight": 0.996}
SLACK = 0.003
BROAD = 1e9  # operations of the largest products of a `sizes_train` table that were measured with `broad`
LANES = {"avx512": 16, "avx2": 8, "scalar": 4}
OUTER = ("igemm", "rows", "wino", "patch", "gemm", "tiled", "small")
# (kind, vectors per row, height with AVX-512): height without it. What is not listed has equal heights.
HEIGHTS = {("igemm", 2, 14): 6, ("igemm", 2, 8): 4, ("igemm", 3, 9): 4, ("rows", 2, 14): 6, ("rows", 2, 8): 4, ("rows", 3, 9): 4,
           ("rows", 1, 16): 12, ("rows", 1, 8): 7, ("wino", 2, 14): 6, ("wino", 3, 9): 4, ("patch", 2, 14): 6, ("patch", 3, 9): 4,
           ("patch", 1, 16): 12, ("patch", 1, 8): 6, ("lanes", 1, 18): 1, ("lanes", 1, 24): 5, ("gemm", 2, 14): 6, ("gemm", 3, 9): 4,
           ("tiled", 2, 12): 6, ("tiled", 3, 8): 4, ("small", 1, 12): 6, ("small", 2, 12): 6, ("small", 3, 8): 4, ("small", 4, 8): 4}
WIDE_HEIGHT = {(kind, vectors, narrow): wide for (kind, vectors, wide), narrow in HEIGHTS.items()}
MEASURED = {"status", "cache", "pass", "time_us", "spread", "repeats", "noisy", "error", "setup_us", "device", "provider", "weight",
            "workspace_bytes", "tflops", "gb_s"}
# Order of the axes in a block, and how threads are shared out.
AXES = {"gemm": ["kind", "mr", "nr", "pack_a", "pack_b", "mc", "kc", "nc", "order"],
        "conv": ["kind", "mr", "nr", "pack_w", "pixels", "depth", "channels"]}
THREADS = {"gemm": {"one": "", "rows": 'threads_m = "cores"\n', "columns": 'threads_n = "cores"\n', "sums": 'split_k = "cores"\n',
                    "grid": 'threads_m = "side"\nthreads_n = "floor(cores / side)"\n'},
           "conv": {"one": "", "pixels": 'threads_p = "cores"\n', "channels": 'threads_k = "cores"\n'}}


def shared_out(row):
    """Which threads a config has, as a key of THREADS."""
    if "threads_p" in row:
        return "pixels" if row["threads_p"] > 1 else "channels" if row["threads_k"] > 1 else "one"
    if row["split_k"] > 1:
        return "sums"
    if row["threads_m"] > 1 and row["threads_n"] > 1:
        return "grid"
    return "rows" if row["threads_m"] > 1 else "columns" if row["threads_n"] > 1 else "one"


def candidate(row, axes):
    """(threads, values of the axes): tiles as with AVX-512, widths as '2 * lanes'."""
    row = dict(row)
    if row["kind"] in OUTER or row["kind"] == "lanes":
        vectors = row["nr"] // LANES[row["isa"]]
        if row["isa"] != "avx512":
            row["mr"] = WIDE_HEIGHT.get((row["kind"], vectors, row["mr"]), row["mr"])
        row["nr"] = "lanes" if vectors == 1 else f"{vectors} * lanes"
    return shared_out(row), tuple(row[axis] for axis in axes)


def speeds(path, axes):
    """(candidate, problem number): speed relative to the problem's best; number of problems."""
    table = pq.read_table(path)
    names = [name for name in table.schema.names if name.startswith("config_")]
    fields = [name for name in table.schema.names if not name.startswith("config") and name not in MEASURED]
    problem_columns = [table.column(name).to_pylist() for name in fields]
    sizes = [fields.index(name) for name in ("m", "n", "k", "batch")] if ".sizes_" in path else []
    configs = list(zip(*(table.column(name).to_pylist() for name in names)))
    known = {config: candidate(dict(zip((name[len("config_"):] for name in names), config)), axes) for config in set(configs)}
    numbers, times = {}, {}
    rows = zip(zip(*problem_columns), configs, *(table.column(name).to_pylist() for name in ("status", "pass", "time_us")))
    for problem, config, status, measured_in, time_us in rows:
        if status not in ("ok", "raced") or not time_us or 2 * math.prod(problem[i] for i in sizes) > BROAD:
            continue
        key = known[config], numbers.setdefault(problem, len(numbers))
        if key not in times or measured_in >= times[key][0]:
            times[key] = measured_in, time_us
    best = np.full(len(numbers), np.inf)
    for (_, problem), (_, time_us) in times.items():
        best[problem] = min(best[problem], time_us)
    return {key: best[key[1]] / time_us for key, (_, time_us) in times.items()}, len(numbers)


def matrices(op, part):
    """By CPU: problems x candidates; and the candidates."""
    axes = AXES["gemm" if op == "gemm" else "conv"]
    sets = "*" if op == "gemm" else ""  # convolutions: chosen before there were sets of larger ones
    tables = {re.search(r"_fp32_(.*)\.parquet", os.path.basename(path))[1]: speeds(path, axes)
              for path in sorted(glob.glob(f"{DATA}/{op}_fp32_*.{sets}{part}.parquet"))}
    return tables, sorted({key[0] for found, _ in tables.values() for key in found}, key=str)


def filled(tables, candidates):
    at = {one: i for i, one in enumerate(candidates)}
    out = {}
    for cpu, (found, problems) in tables.items():
        out[cpu] = np.zeros((problems, len(candidates)))
        for (one, problem), share in found.items():
            if one in at:
                out[cpu][problem, at[one]] = share
    return out


def choose(op):
    tables, candidates = matrices(op, "train")
    shares = filled(tables, candidates)
    chosen = []

    def reached(configs, cpu):
        return shares[cpu][:, configs].max(axis=1, initial=0)

    for cpus in [cpu for cpu in shares if cpu.endswith(".train")], list(shares):
        while below := [cpu for cpu in cpus if reached(chosen, cpu).mean() < GOAL[op]]:
            gain = sum(np.maximum(shares[cpu] - reached(chosen, cpu)[:, None], 0).mean(axis=0) for cpu in below)
            chosen.append(int(np.argmax(gain)))
    floors = {cpu: reached(chosen, cpu).mean() - SLACK for cpu in shares}
    while True:
        rests = [[i for i in chosen if i != left_out] for left_out in chosen]
        means = [{cpu: reached(rest, cpu).mean() for cpu in shares} for rest in rests]
        kept = [(sum(mean.values()), rest) for mean, rest in zip(means, rests) if all(mean[cpu] >= floors[cpu] for cpu in shares)]
        if not kept or op != "gemm":
            return [candidates[i] for i in chosen]
        chosen = max(kept)[1]


def value_text(axis, values, row):
    value = values[axis]
    if axis == "mr":
        vectors = 1 if row["nr"] == "lanes" else int(str(row["nr"])[0]) if "lanes" in str(row["nr"]) else 0
        narrow = HEIGHTS.get((row["kind"], vectors, value))
        return str(value) if narrow is None else f'"if(wide, {value}, {narrow})"'
    return f'"{value}"' if isinstance(value, str) else str(value)


def blocks(op, chosen):
    kind = "gemm" if op == "gemm" else "conv"
    for threads, setting in THREADS[kind].items():
        rows = sorted((values for shared, values in chosen if shared == threads), key=order_of)
        if not rows:
            continue
        print("[[rule_set.default.block]]")
        if kind == "conv":
            print(f"when = \"s.op == '{op}'\"")
        print(setting, end="")
        print("axes = [" + ", ".join(f'"{axis}"' for axis in AXES[kind]) + "]\nconfigs = [")
        for values in rows:
            row = dict(zip(AXES[kind], values))
            print("  [" + ", ".join(value_text(axis, row, row) for axis in AXES[kind]) + "],")
        print("]\n")


def order_of(values):
    """The kinds for large problems first, and among them packed and large blocks: the first of a kind is its usual config."""
    kinds = ["tiled", "rows", "igemm", "wino", "gemm", "patch", "lanes", "dot", "skinny_m", "skinny_n", "small"]
    return kinds.index(values[0]), -values[3:5].count("pack"), str(values[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    for op in GOAL:
        chosen = choose(op)
        if not asked.report:
            blocks(op, chosen)
            continue
        threads = collections.Counter(shared for shared, _ in chosen)
        print(f"{op}: {len(chosen)} configs with more than one thread, {threads['one']} with one")
        held_out = matrices(op, "held_out")[0]
        chosen_set = set(chosen)
        for cpu, (found, problems) in held_out.items():
            best = np.zeros(problems)
            for (one, problem), share in found.items():
                if one in chosen_set:
                    best[problem] = max(best[problem], share)
            print(f"  {cpu:24} {problems:4} held-out problems: mean {100 * best.mean():.2f} %, P2 {100 * np.quantile(best, 0.02):.1f} %")


main()
