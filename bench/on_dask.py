#!/usr/bin/env python3
"""./dev bench dask: sweeps on 1, 2 and 4 local workers, and what the coordinator of 1,000 workers costs.

Kernels are replaced by a sleep (python/tests/fixed_worker.py), so that workers do not share the CPUs of this machine.

    RESULT dask.efficiency_2, _4       time on one worker / (workers * time on so many), sleeping kernels
    RESULT dask.rows_per_second        measured rows that reach the coordinator's folder, kernels without a sleep, 4 workers
    RESULT dask.simulated_rows_per_second    rows that the coordinator itself takes from 1,000 workers
    RESULT dask.coordinator_share      its share of one CPU for 1,000 workers that measure --rate rows a second each
"""

import argparse
import os
import pathlib
import pickle
import tempfile
import time

import distributed

import kscout.dask
from kscout import _dask_sweep

WORKER = pathlib.Path(__file__).resolve().parents[1] / "python/tests/fixed_worker.py"
SHARDS = 16
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--sleep", type=float, default=0.03, help="seconds of a row")
    parser.add_argument("--rate", type=float, default=100, help="rows a second of one worker in the simulation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = words_of(folder, options.problems)
        seconds = {}
        for workers in (1, 2, 4):
            seconds[workers], rows = sweep_seconds(workers, words, options.sleep)
            print(f"{workers} workers  {rows} rows  {seconds[workers]:.2f} s  efficiency {seconds[1] / workers / seconds[workers]:.3f}")
        fast, rows = sweep_seconds(4, words_of(folder, 16 * options.problems), 0)
        print(f"4 workers  {rows} rows without a sleep  {fast:.2f} s")
    interval = 1.0
    poll = coordinator_seconds(1000, int(options.rate * interval), 5)
    question = 1000 * question_seconds()
    print(f"1,000 workers of {options.rate:g} rows/s: a poll takes the coordinator {poll:.3f} s, and asking {question:.3f} s of all processes")
    for workers in (2, 4):
        print(f"RESULT dask.efficiency_{workers} {seconds[1] / workers / seconds[workers]:.3f} 1")
    print(f"RESULT dask.rows_per_second {rows / fast:.0f} 1/s")
    print(f"RESULT dask.simulated_rows_per_second {1000 * options.rate * interval / poll:.0f} 1/s")
    print(f"RESULT dask.coordinator_share {(poll + question) / interval:.3f} 1")
    missed = [workers for workers in (2, 4) if seconds[1] / workers / seconds[workers] < GOAL]
    print("all goals met" if not missed else f"efficiency below {GOAL} on {missed} workers")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
