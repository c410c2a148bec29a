"""Replays `python -m kscout.moe` on full grids of measured layers: what few measurements per table cost against all.

    ./dev bench moe [--data data/fused_moe_bf16_h100.parquet] [--learn 2]

For each layer a model learns from other layers only: from the first `--learn` of the file (which are then not judged), or
with --learn 0 from all others. A table is made from the measurements that the tuner would take, and read as an engine does:
each number of tokens takes the nearest row. RESULT lines compare with the fastest of the grid and with the engine's default.
"""

import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from kscout import moe  # noqa: E402

KSCOUT = "build/release/kscout"
TOP, TOP_BETWEEN = 6, 3


def kscout(*words):
    done = subprocess.run([KSCOUT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"kscout {' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout


class Layer:
    """The grid of a layer: for each number of tokens the time of each config."""

    def __init__(self, experts, n, k, top_k):
        self.experts, self.n, self.k, self.top_k = experts, n, k, top_k
        self.rows, self.times, self.problems = [], {}, {}

    @property
    def name(self):
        return f"E={self.experts},N={self.n // 2},K={self.k}"

    def add(self, row):
        tokens = sum(map(int, row["m"].split("+"))) // self.top_k
        config = tuple(int(row[f"config_{name.lower()}"]) for name in moe.ENGINE_DEFAULTS[0])
        self.rows.append(row)
        self.times.setdefault(tokens, {})[config] = float(row["time_us"])
        self.problems[tokens] = f"grouped_gemm:{row['m']}x{self.n}x{self.k}:bf16:rcr"

    def us(self, tokens, config):
        """Where the grid lacks a config, that with the other group size counts: few tokens make few rows of tiles to group. The grid
        leaves out tiles of far more rows than an expert has, which count as its slowest config."""
        for group in (config[3], 1, 16):
            if (us := self.times[tokens].get((*config[:3], group, *config[4:]))) is not None:
                return us
        return max(self.times[tokens].values())

    def default_us(self, tokens):
        return self.times[tokens][tuple(moe.engine_default(tokens, self.experts).values())]


def read_layers(file, folder):
    """The layers of a dataset in their order. The rows of one token say how many experts it has."""
    text = os.path.join(folder, "all.csv")
    kscout("dataset", "import", file, "--out", text)
    with open(text, newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["status"] == "ok"]
    layers = {}
    for row in rows:
        sizes = row["m"].split("+")
        key = len(sizes), int(row["n"]), int(row["k"])
        fewest, _ = layers.setdefault(key, [math.inf, []])
        layers[key][0] = min(fewest, sum(map(int, sizes)))
        layers[key][1].append(row)
    made = []
    for (experts, n, k), (top_k, own) in layers.items():
        made.append(Layer(experts, n, k, top_k))
        for row in own:
            made[-1].add(row)
    return made


def train(layers, folder):
    text, data, model = (os.path.join(folder, name) for name in ("some.csv", "some.parquet", "model"))
    with open(text, "w", newline="") as stream:
        writer = csv.DictWriter(stream, layers[0].rows[0].keys())
        writer.writeheader()
        for layer in layers:
            writer.writerows(layer.rows)
    kscout("dataset", "import", text, "--device", layers[0].rows[0]["device"], "--out", data)
    kscout("train", "--data", data, "--targets", "rank", "--folds", "3", "--out", model)
    return model


def ranked(layer, tokens, model, count):
    """The configs that the tuner measures: the model's best and the defaults of the engines."""
    found = json.loads(kscout("predict", layer.problems[tokens], "--model", model, "--top", "400", "--format", "json"))
    chosen = []
    for row in found:
        values = [row["config"].split("__")[1]]
        for name in moe.ENGINE_DEFAULTS[0]:
            values = values[:-1] + values[-1].split(name.lower(), 1) if len(values) == 1 else [*values[:-1], *values[-1].split("_" + name.lower(), 1)]
        config = tuple(int(value) for value in values[1:])
        if config in layer.times[tokens]:
            chosen.append(config)
        if len(chosen) == count:
            break
    return chosen + [tuple(one.values()) for one in moe.ENGINE_DEFAULTS if tuple(one.values()) not in chosen]


def table_of(layer, model):
    table, measured = {}, 0

    def add(tokens, count):
        configs = ranked(layer, tokens, model, count)
        table[tokens] = min(configs, key=layer.times[tokens].__getitem__)
        return len(configs)

    for tokens in moe.KEYS:
        measured += add(tokens, TOP)
    values = {tokens: dict(zip(moe.ENGINE_DEFAULTS[0], config)) for tokens, config in table.items()}
    for tokens in moe._between(values):
        if tokens in layer.times:  # the grid has not every number
            measured += add(tokens, TOP_BETWEEN)
    return table, measured


def judge(layer, table):
    """Efficiency in percent and speed over the engine's default, for each number of tokens of the grid."""
    efficiency, speed = [], []
    for tokens, times in layer.times.items():
        config = table[min(table, key=lambda key: abs(key - tokens))]
        us = layer.us(tokens, config)
        efficiency.append(100 * min(times.values()) / us)
        speed.append(layer.default_us(tokens) / us)
    return efficiency, speed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="data/fused_moe_bf16_h100.parquet")
    parser.add_argument("--learn", type=int, default=2, help="layers to learn from; 0: all but the judged one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KSCOUT_FAMILIES"] = moe.family(moe.Layer(8, 2048, 6144, 2)).write(folder)  # for CSV, which declares nothing
        layers = read_layers(given.data, folder)
        all_speeds, means = [], []
        print(f"{'layer':<22} {'rows':>4} {'measured':>8} {'mean %':>7} {'worst %':>7} {'speed':>6} {'worst':>6} {'default %':>9}")
        for number, layer in enumerate(layers):
            if number < given.learn:
                continue
            model = train(layers[: given.learn] or [one for one in layers if one is not layer], os.path.join(folder))
            table, measured = table_of(layer, model)
            efficiency, speed = judge(layer, table)
            default = [100 * min(times.values()) / layer.default_us(tokens) for tokens, times in layer.times.items()]
            all_speeds += speed
            means.append(statistics.mean(efficiency))
            print(f"{layer.name:<22} {len(table):>4} {measured:>8} {means[-1]:>7.2f} {min(efficiency):>7.2f} "
                  f"{statistics.geometric_mean(speed):>6.3f} {min(speed):>6.3f} {statistics.mean(default):>9.2f}", flush=True)  # fmt: skip
    print(f"RESULT moe.efficiency_mean {statistics.mean(means):.2f} %")
    print(f"RESULT moe.efficiency_least_table {min(means):.2f} %")
    print(f"RESULT moe.geomean_vs_default {statistics.geometric_mean(all_speeds):.3f} x")
    print(f"RESULT moe.min_vs_default {min(all_speeds):.3f} x")


if __name__ == "__main__":
    main()
