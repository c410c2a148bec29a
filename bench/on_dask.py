#!/usr/bin/env python3
"""./dev bench dask: sweeps on 1, 2 and 4 local workers, and what the coordinator of 1,000 workers costs.

Kernels are replaced by a sleep (python/tests/fixed_worker.py), so that workers do not share the CPUs of this machine.

    RESULT dask.efficiency_2, _4       time on one worker / (workers * time on so many), sleeping kernels
    RESULT dask.rows_per_second        measured rows that reach the coordinator's folder, kernels without a sleep, 4 workers
    RESULT dask.simulated_rows_per_second    rows that the coordinator itself takes from 1,000 workers
    RESULT dask.coordinator_share      its share of one CPU for 1,000 workers that measure RATE rows a second each

With --train-seeds N, only compares trainings: N seeds of `kscout train` and of LightGBM on two workers, by their choices
on held-out problems.

    RESULT dask.train_difference       mean efficiency on two workers less that of `kscout train`, in points
    RESULT dask.train_difference_error its standard error
"""

import argparse
import json
import os
import pathlib
import pickle
import statistics
import tempfile
import time

import distributed
import lightgbm
import numpy

import kscout.dask
from kscout import _dask_sweep, _dask_train, _program

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORKER = ROOT / "python/tests/fixed_worker.py"
DATA = ROOT / "data/gemm_fp32_zen4-2c"
SHARDS = 16
PROBLEMS = 64
SLEEP = 0.03  # seconds of a row
RATE = 100  # rows a second of one worker in the simulation
GOAL = 0.9


def words_of(folder, problems):
    file = pathlib.Path(folder) / f"{problems}.txt"
    file.write_text("".join(f"gemm:{m}x{n}x32\n" for m in range(1, problems // 16 + 1) for n in range(16, 32)))
    return ["--problems", str(file), "--rules", "tiny", "--worker", str(WORKER)]


def set_sleep(seconds):
    os.environ["KSCOUT_FIXED_SLEEP"] = seconds


def sweep_seconds(workers, words, sleep):
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, resources={"kscout": 1}, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(set_sleep, str(sleep))
        begin = time.perf_counter()
        result = kscout.dask.sweep(client, folder + "/sweep", words, shards=SHARDS, interval_s=0.2)
        return time.perf_counter() - begin, result["rows"]


class ManyWorkers:
    """Answers as a client of `count` workers, each of which has measured `rows` more rows at each question."""

    def __init__(self, count, rows):
        line = b"123456a%do%.4g,7.78,3,4.24\n"
        lines = b"".join(line % (config, 50 + config / 7) for config in range(rows))
        self.answers = [pickle.dumps((f"host{i // 8}", {i + 1: (f"token{i}", lines)})) for i in range(count)]

    def run(self, function, *_, **__):
        if function is not _dask_sweep.look:
            return {}
        return {f"tcp://{i}": pickle.loads(answer) for i, answer in enumerate(self.answers)}


def coordinator_seconds(workers, rows, polls):
    """Seconds of the coordinator for a poll of all workers."""
    with tempfile.TemporaryDirectory() as folder:
        coordinator = _dask_sweep.Coordinator(ManyWorkers(workers, rows), [], folder, [], workers)
        for shard in coordinator.shards:
            coordinator.hand_over(shard, "", "host", f"token{shard.number - 1}")
        begin = time.process_time()
        taken = sum(coordinator.poll() for _ in range(polls))
        assert taken == workers * rows * polls
        return (time.process_time() - begin) / polls


def question_seconds(workers=50, rounds=20):
    """Seconds per worker of asking all workers for nothing, through the scheduler; its part of the work is in it."""
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(_dask_sweep.look, {})
        begin = time.process_time()
        for _ in range(rounds):
            client.run(_dask_sweep.look, {})
        return (time.process_time() - begin) / rounds / workers


def efficiency(scores, sizes, tflops, raced):
    """Mean efficiency of the choices by scores, in percent."""
    reached, first = [], 0
    for size in sizes:
        rows = slice(first, first + size)
        best = numpy.where(raced[rows], 0, tflops[rows]).max()
        reached.append(min(tflops[rows][numpy.argmax(scores[rows])] / best, 1))
        first += size
    return 100 * statistics.mean(reached)


def compare_trainings(seeds, target="rank", rounds=150):
    """Prints the efficiencies of both trainers; returns the mean difference and its standard error."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, resources={"kscout": 1}, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        folder = pathlib.Path(temporary)
        train, held_out = f"{DATA}.train.parquet", f"{DATA}.held_out.parquet"
        halves = ["--out", folder / "a.parquet", "--held-out-out", folder / "b.parquet"]
        _program.call("dataset", "split", train, "--held-out", 0.5, *halves, quiet=True)
        local, on_dask, spec = [], [], None
        for seed in range(seeds):
            model = folder / f"model{seed}"
            exactly = ["--rounds", rounds, "--min-rounds", rounds, "--patience", rounds, "--folds", 2]
            _program.call("train", "--data", train, "--targets", target, *exactly, "--seed", seed, "--out", model, quiet=True)
            evaluation = folder / "evaluation.json"
            _program.call("evaluate", "--model", model, "--data", held_out, "--out", evaluation, quiet=True)
            local.append(json.loads(evaluation.read_text())["efficiency"]["mean"])
            if spec is None:
                spec = json.loads((model / "feature_spec.json").read_text())
                label = f"label_{target}"
                of = spec["schema"], spec["feature_names"]
                parts = [client.submit(_dask_train.partition_of, str(folder / f"{half}.parquet"), *of, [label]) for half in "ab"]
                features, columns, sizes = _dask_train.partition_of(held_out, *of, ["tflops", "raced"])
            spec["params"]["seed"] = seed
            booster = lightgbm.Booster(model_str=_dask_train.grow(client, parts, target, spec, rounds))
            on_dask.append(efficiency(booster.predict(features), sizes, columns["tflops"], columns["raced"].astype(bool)))
            print(f"{target} seed {seed}: kscout train {local[-1]:.2f} %, two workers {on_dask[-1]:.2f} %", flush=True)
    for name, found in (("kscout train", local), ("two workers", on_dask)):
        span = f"from {min(found):.2f} to {max(found):.2f}"
        print(f"{name}: mean {statistics.mean(found):.3f} %, {span}, standard deviation {statistics.stdev(found):.3f}")
    error = ((statistics.variance(local) + statistics.variance(on_dask)) / seeds) ** 0.5
    return statistics.mean(on_dask) - statistics.mean(local), error


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-seeds", type=int, default=0, help="2 or more: compares trainings instead")
    options = parser.parse_args()
    if options.train_seeds:
        difference, error = compare_trainings(options.train_seeds)
        print(f"RESULT dask.train_difference {difference:.3f} points")
        print(f"RESULT dask.train_difference_error {error:.3f} points")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        words = words_of(folder, PROBLEMS)
        seconds = {}
        for workers in (1, 2, 4):
            seconds[workers], rows = sweep_seconds(workers, words, SLEEP)
            print(f"{workers} workers  {rows} rows  {seconds[workers]:.2f} s  efficiency {seconds[1] / workers / seconds[workers]:.3f}")
        fast, rows = sweep_seconds(4, words_of(folder, 16 * PROBLEMS), 0)
        print(f"4 workers  {rows} rows without a sleep  {fast:.2f} s")
    interval = 1.0
    poll = coordinator_seconds(1000, int(RATE * interval), 5)
    question = 1000 * question_seconds()
    print(f"1,000 workers of {RATE} rows/s: a poll takes the coordinator {poll:.3f} s, and asking {question:.3f} s of all processes")
    for workers in (2, 4):
        print(f"RESULT dask.efficiency_{workers} {seconds[1] / workers / seconds[workers]:.3f} 1")
    print(f"RESULT dask.rows_per_second {rows / fast:.0f} 1/s")
    print(f"RESULT dask.simulated_rows_per_second {1000 * RATE * interval / poll:.0f} 1/s")
    print(f"RESULT dask.coordinator_share {(poll + question) / interval:.3f} 1")
    missed = [workers for workers in (2, 4) if seconds[1] / workers / seconds[workers] < GOAL]
    print("all goals met" if not missed else f"efficiency below {GOAL} on {missed} workers")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
