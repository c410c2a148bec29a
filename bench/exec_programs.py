#!/usr/bin/env python3
"""./dev bench exec_programs: whole programs of PyTorch and NumPy on the CPU alone, under `kscout exec`, and with --refine.

Processes of the same Python take turns: --rounds times each way. A process prints the median time of a step, after a warm-up; the
median of its processes counts. Needs PyTorch in that Python; programs whose packages are missing are left out, and named.

    RESULT exec_programs.NAME          time alone over that under kscout exec: above 1 we win
    RESULT exec_programs.NAME_refine   the same with --refine
    RESULT exec_programs.cpus_LIMIT    CPUs that transformer_inference keeps busy under kscout exec, where LIMIT allows one:
                                       set_num_threads (PyTorch's), taskset, quota (of a cgroup; needs root)

With --calls, a table of the fp32 products that the programs call, instead: how many of them in a step, how many are served, the
share of the step's time alone, and why the others are passed on.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import peers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
SECONDS = 2  # of a process, at most, behind the warm-up


def median_ms(step, warm_up=20, least=8, most=200):
    """Refinement times the first 12 calls of each product."""
    if "STEPS" in os.environ:
        for _ in range(int(os.environ["STEPS"])):
            step()
        return 0
    for _ in range(warm_up):
        step()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < most and (len(times) < least or time.perf_counter() < end):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


# ---- Programs. Each returns the milliseconds of a step.

def training(model, loss, data, learning_rate=1e-3):
    import torch
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    model.train()

    def step():
        optimizer.zero_grad()
        loss(model(*data)).backward()
        optimizer.step()
    return step


def inference(model, *data):
    import torch
    model.eval()

    def step():
        with torch.no_grad():
            model(*data)
    return step


def transformer():
    import torch
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(4, 128, 768)


def transformer_inference():
    return median_ms(inference(*transformer()))


def transformer_training():
    model, x = transformer()
    return median_ms(training(model, lambda y: y.square().mean(), (x,)))


def mlp_training():
    """An epoch of 4,096 rows in batches of 256."""
    import torch
    nn = torch.nn
    model = nn.Sequential(nn.Linear(100, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer, x, y = torch.optim.Adam(model.parameters()), torch.randn(4096, 100), torch.randint(0, 10, (4096,))

    def epoch():
        for i in range(0, 4096, 256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[i:i + 256]), y[i:i + 256]).backward()
            optimizer.step()
    return median_ms(epoch)


def cnn():
    import torch
    nn = torch.nn

    def block(inputs, outputs, stride):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
    return nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), block(32, 64, 2), block(64, 128, 2), block(128, 256, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 1000)), torch.randn(8, 3, 128, 128)


def cnn_inference():
    return median_ms(inference(*cnn()))


def cnn_training():
    import torch
    model, x = cnn()
    target = torch.randint(0, 1000, (8,))
    return median_ms(training(model, lambda y: torch.nn.functional.cross_entropy(y, target), (x,)))


def lstm_training():
    import torch
    model = torch.nn.LSTM(256, 512, 2, batch_first=True)
    return median_ms(training(model, lambda y: y[0].square().mean(), (torch.randn(32, 64, 256),)))


def embedding_training():
    """A classifier of bags of words."""
    import torch
    nn = torch.nn
    model = nn.Sequential(nn.EmbeddingBag(50000, 256), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 20))
    words, target = torch.randint(0, 50000, (512, 64)), torch.randint(0, 20, (512,))
    return median_ms(training(model, lambda y: nn.functional.cross_entropy(y, target), (words,)))


def vit_inference():
    import torch
    nn = torch.nn

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 384, 16, 16)
            layer = nn.TransformerEncoderLayer(384, 6, 1536, batch_first=True, norm_first=True, activation="gelu")
            self.layers, self.head = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(384, 1000)

        def forward(self, x):
            return self.head(self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
    return median_ms(inference(Vit(), torch.randn(8, 3, 224, 224)))


def sklearn_float32():
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.neighbors import NearestNeighbors
    draw = np.random.default_rng(0)
    x = draw.standard_normal((4000, 256), dtype=np.float32)

    def step():
        PCA(16, svd_solver="randomized", random_state=0).fit_transform(x)
        KMeans(8, n_init=1, max_iter=10, random_state=0).fit(x)
        NearestNeighbors(n_neighbors=5, algorithm="brute").fit(x).kneighbors(x[:1000])
    return median_ms(step, warm_up=8)


def numpy_between():
    """NumPy prepares what a network of PyTorch computes."""
    import numpy as np
    import torch
    nn = torch.nn
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 256)).eval()
    draw = np.random.default_rng(0)
    x, mix = draw.standard_normal((512, 512), dtype=np.float32), draw.standard_normal((512, 512), dtype=np.float32)

    def step():
        with torch.no_grad():
            y = model(torch.from_numpy(x @ mix)).numpy()
        return y.T @ y
    return median_ms(step)


def numpy_steps():
    """What programs of NumPy do: fp32 products beside what is passed on (x.T @ x, vectors, factorisations, fp64)."""
    import numpy as np
    draw = np.random.default_rng(0)

    def normal(*size, dtype=np.float32):
        return draw.standard_normal(size, dtype=dtype)
    x, y, square = normal(2000, 500), normal(500, 500), normal(1200, 1200)
    double, vector, small = normal(500, 500, dtype=np.float64), normal(1200), normal(8, 8) / 8
    weights = [normal(500, 1000), normal(1000, 1000), normal(1000, 10)]
    q, k, v = normal(512, 64), normal(512, 64), normal(512, 64)

    def covariance():
        return x @ (x.T @ x / len(x))

    def gram_then_product():
        return square @ square.T, square @ square

    def fp64_between():
        return double @ double, x @ y

    def power_iteration():
        w = vector
        for _ in range(10):
            w = square @ w
            w /= np.linalg.norm(w)
        return square @ (square * w)

    def normal_equations():
        return x @ np.linalg.solve(x.T @ x, x.T @ x[:, :8])

    def singular_values():
        return np.linalg.svd(double, compute_uv=False), x @ y

    def network():
        out = x
        for w in weights:
            out = np.maximum(out @ w, 0)
        return out

    def network_training():
        first = np.maximum(x @ weights[0], 0)
        error = first @ weights[1] - 1
        return first.T @ error, x.T @ ((error @ weights[1].T) * (first > 0))

    def distances():
        return np.argmin((x * x).sum(1)[:, None] - 2 * x @ x[:64].T, axis=1)

    def attention():
        for _ in range(8):
            scores = np.exp(q @ k.T / 8)
            scores @ v / scores.sum(1, keepdims=True)

    def pauses():
        double @ double  # pylint: disable=expression-not-assigned
        time.sleep(0.03)
        return x @ y

    def kalman_filter():
        state = small
        for _ in range(1000):
            state = small @ state @ small.T + small
        return state
    return [covariance, gram_then_product, fp64_between, power_iteration, normal_equations, singular_values, network,
            network_training, distances, attention, pauses, kalman_filter]


def numpy_program(name):
    return lambda: median_ms(next(step for step in numpy_steps() if step.__name__ == name), warm_up=14)


def loader_workers():
    """Two processes draw and transform the batches that a network learns from."""
    import torch
    nn = torch.nn

    class Rows(torch.utils.data.Dataset):
        mix = torch.randn(256, 256)

        def __len__(self):
            return 2048

        def __getitem__(self, i):
            return torch.randn(8, 256) @ self.mix
    model = nn.Sequential(nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def epoch():
        for batch in torch.utils.data.DataLoader(Rows(), 128, num_workers=2):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return median_ms(epoch, warm_up=2, least=5)


def two_threads():
    import threading
    import torch
    models = [inference(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)),
                        torch.randn(256, 1024)) for _ in range(2)]

    def run(step):
        for _ in range(10):
            step()

    def both():
        threads = [threading.Thread(target=run, args=(step,)) for step in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return median_ms(both, warm_up=5)


def product_of_process(seed):
    import numpy as np
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((600, 600), dtype=np.float32)
    for _ in range(20):
        x = x @ x / 600
    return float(x[0, 0])


def process_pool():
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return median_ms(lambda: pool.map(product_of_process, range(8)), warm_up=4)


def busy_cpus():
    import torch
    if os.environ.get("LIMIT") == "set_num_threads":
        torch.set_num_threads(1)
    step = inference(*transformer())
    for _ in range(3):
        step()
    wall, of_process = time.perf_counter(), time.process_time()
    while time.perf_counter() < wall + SECONDS:
        step()
    return (time.process_time() - of_process) / (time.perf_counter() - wall)


PROGRAMS = [transformer_inference, transformer_training, mlp_training, cnn_inference, cnn_training, lstm_training,
            embedding_training, vit_inference, sklearn_float32, numpy_between, loader_workers, two_threads, process_pool]

NUMPY_PROGRAMS = ["covariance", "gram_then_product", "fp64_between", "power_iteration", "normal_equations", "singular_values",
                  "network", "network_training", "distances", "attention", "pauses", "kalman_filter"]


# ---- The run.

def answer_of(name, prefix, env, begin=None):
    command = [*prefix, sys.executable, os.path.abspath(__file__), "--program", name]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=600, check=False, preexec_fn=begin)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        sys.exit(f"exec_programs: {name} ended with status {done.returncode}\n{done.stderr}")
    return json.loads(lines[-1])


def enter_cgroup_of_one_cpu():
    folder, quota = ("/sys/fs/cgroup", ("cpu.max", "100000 100000"))
    if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        folder, quota = "/sys/fs/cgroup/cpu", ("cpu.cfs_quota_us", "100000")
    folder = os.path.join(folder, "kscout_bench")
    os.makedirs(folder, exist_ok=True)
    for file, text in (quota, ("cgroup.procs", str(os.getpid()))):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as target:
            target.write(text)


def show_calls(names, kscout, folder, env):
    """The products of one more step: a process of three steps has those of the preparation, too."""
    report, record = os.path.join(folder, "report"), os.path.join(folder, "record")

    def counts_of(name, steps):
        for file in (report, record):
            if os.path.exists(file):
                os.remove(file)
        answer_of(name, [kscout, "exec", "--report", report, "--"], {**env, "STEPS": str(steps)})
        answer_of(name, [kscout, "exec", "--no-serve", "--record", record, "--"], {**env, "STEPS": str(steps)})
        with open(report, encoding="utf-8") as file:
            text = file.read()
        counts = {"products": 0, "us": 0.0, "served": sum(map(int, re.findall(r"(\d+) served on the CPU", text)))}
        for count, why in re.findall(r"(\d+) passed on: (.*)", text):
            counts[why] = counts.get(why, 0) + int(count)
        with open(record, encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                counts["products"] += int(row["calls"])
                counts["us"] += float(row["total_us"] or 0)
        return counts

    print(f"{'program':24} {'products':>8} {'served':>8} {'of the time':>12}  passed on")
    for name in names:
        few, more = counts_of(name, 3), counts_of(name, 23)
        step = {what: (count - few.get(what, 0)) / 20 for what, count in more.items()}
        share = step["us"] / 10 / answer_of(name, [], env)
        passed = ", ".join(f"{count:.0f} {why}" for why, count in step.items() if why not in ("products", "us", "served"))
        print(f"{name:24} {step['products']:8.0f} {step['served']:8.0f} {share:10.0f} %  {passed}", flush=True)


def show_limits(under, env):
    taskset = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    for name, prefix, begin in (("set_num_threads", under, None), ("taskset", [*taskset, *under], None),
                                ("quota", under, enter_cgroup_of_one_cpu)):
        try:
            print(f"RESULT exec_programs.cpus_{name} {answer_of('busy_cpus', prefix, {**env, 'LIMIT': name}, begin):.3f}  (goal <= 1.05)")
        except subprocess.SubprocessError:  # what `begin` raised
            print(f"cpus_{name} is left out: no cgroup can be made")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of programs, comma-separated; limits: cpus_LIMIT")
    parser.add_argument("--calls", action="store_true", help="what the programs call, instead of times")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    named = {program.__name__: program for program in [*PROGRAMS, busy_cpus]}
    named |= {"numpy_" + name: numpy_program(name) for name in NUMPY_PROGRAMS}
    if asked.program:
        if not asked.program.startswith(("numpy_", "sklearn", "process_pool")) or asked.program == "numpy_between":
            import torch
            torch.manual_seed(0)
        print(json.dumps(named[asked.program]()))
        return
    kscout = os.path.join(asked.build, "kscout")
    if not os.path.exists(kscout):
        sys.exit(f"exec_programs: {kscout} is missing; ./dev build makes it, or give --build")
    print(peers.torch_about(), flush=True)
    wanted = asked.only.split(",") if asked.only else [name for name in named if name != "busy_cpus"]
    with tempfile.TemporaryDirectory(prefix="kscout_programs_") as folder:
        env = {**os.environ, "KSCOUT_DB": os.path.join(folder, "decisions.sqlite")}
        env.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
        if asked.calls:
            show_calls(wanted, kscout, folder, env)
            return
        print(f"{'program':24} {'alone':>10} {'exec':>10} {'refine':>10}  ms, medians of {asked.rounds} processes", flush=True)
        ways = [[], [kscout, "exec", "--"], [kscout, "exec", "--refine", "--"]]
        for name in wanted:
            if name == "limits":
                continue
            try:
                if name == "sklearn_float32":
                    import sklearn  # noqa: F401, pylint: disable=unused-import
            except ImportError:
                print(f"{name:24} left out: scikit-learn is not installed", flush=True)
                continue
            times = [[] for _ in ways]
            for _ in range(asked.rounds):
                for i, prefix in enumerate(ways):
                    times[i].append(answer_of(name, prefix, env))
            alone, under, refined = map(statistics.median, times)
            print(f"{name:24} {alone:10.2f} {under:10.2f} {refined:10.2f}  {alone / under:.3f} {alone / refined:.3f}")
            print(f"RESULT exec_programs.{name} {alone / under:.3f}")
            print(f"RESULT exec_programs.{name}_refine {alone / refined:.3f}", flush=True)
        if not asked.only or "limits" in wanted:
            show_limits(ways[1], env)


if __name__ == "__main__":
    main()
