"""How the model of bf16 GEMMs on an H200 does on each distribution, from stored times: docs/bench/distributions_stored_h200.md.

    .venv/bin/python bench/distributions.py lists FOLDER
        writes FOLDER/<list>.train.txt, the training problems of the list's set (for `kscout train --exclude`), and
        FOLDER/<list>.held_out.txt, the measured problems of the set that share no weight shape (n x k) with training
    .venv/bin/python bench/distributions.py tables FOLDER [MODEL [OPTION...]]
        evaluates MODEL (default: the shipped one) on these problems, with options of `kscout evaluate`; {} in MODEL stands
        for the set
"""

import json
import os
import subprocess
import sys

import pyarrow.parquet as parquet

KSCOUT = "build/release/kscout"
LAYOUTS = ("rcr", "rrr", "crr", "ccr")
# Lists of held-out problems: the set, the files that hold them, and where choices come from. Of the held-out file all
# choices have a time; the others have cuBLASLt's kernels only, so choices are made among the measured ones.
LISTS = {
    "llm": ("llm", ("held_out",), "family"),
    "random": ("random", ("held_out",), "family"),
    "training": ("training", ("training_shapes", "distributions"), "measured"),
    "tall_skinny": ("tall_skinny", ("training_shapes", "distributions"), "measured"),
    "llm_more": ("llm", ("distributions",), "measured"),
    "random_more": ("random", ("distributions",), "measured"),
}


def kscout(*words):
    done = subprocess.run([KSCOUT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"kscout {' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout


def sizes_of_set(name):
    texts = kscout("problems", name, "--dtype", "bf16", "--layout", ",".join(LAYOUTS)).split()
    return {tuple(map(int, text.split(":")[1].split("x"))) for text in texts}


def measured(file):
    """(m, n, k, layout) of each problem of a file of data/."""
    keys = ["m", "n", "k", "layout"]
    table = parquet.read_table(f"data/gemm_{file}.parquet", columns=keys).group_by(keys).aggregate([])
    return sorted(tuple(row[key] for key in keys) for row in table.to_pylist())


def tall_skinny(sizes):
    """The shapes of set `tall_skinny`, whose sizes are drawn."""
    short, middle, long = sorted(sizes)
    return short >= 8 and middle <= 1 << 10 and long >= 1 << 13


def write(path, problems):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"gemm:{m}x{n}x{k}:bf16:{layout}\n" for m, n, k, layout in problems)


def lists(folder):
    os.makedirs(folder, exist_ok=True)
    known = {name: sizes_of_set(name) for name in ("llm", "llm_2025", "training", "ck_wide", "ck_edge")}
    known["llm"] |= known.pop("llm_2025")
    train = [p for file in ("bf16_h200.train", "bf16_h200.more_train", "fp16_h200.train") for p in measured(file)]
    trained = {problem[1:3] for problem in train}

    def drawn(sizes):
        """What no list holds was drawn, by set random or like it."""
        return not any(sizes in of_set for of_set in known.values())

    def thin(sizes):
        """Of the training shapes. The others are of training passes, also of networks that set training lacks."""
        return tall_skinny(sizes) and sizes not in known["training"]

    tests = {  # whether sizes of the training data, and of a file of measured problems, belong to the set
        "llm": (known["llm"].__contains__, lambda sizes, file: sizes in known["llm"]),
        "random": (drawn, lambda sizes, file: drawn(sizes) and (file == "held_out" or not thin(sizes))),
        "training": (
            known["training"].__contains__,
            lambda sizes, file: not thin(sizes) if file == "training_shapes" else sizes in known["training"] - known["llm"],
        ),
        "tall_skinny": (tall_skinny, lambda sizes, file: thin(sizes)),
    }
    for name, (of_set, files, _) in LISTS.items():
        in_training, in_measured = tests[of_set]
        left_out = [problem for problem in train if in_training(problem[:3])]
        found = {p for file in files for p in measured(f"bf16_h200.{file}") if in_measured(p[:3], file)}
        held_out = sorted(p for p in found if p[1:3] not in trained)
        write(f"{folder}/{name}.train.txt", left_out)
        write(f"{folder}/{name}.held_out.txt", held_out)
        print(f"{name}: {len(left_out)} of {len(train)} training problems, {len(held_out)} held out")


def evaluate(folder, model, name, *flags):
    of_set, files, pool = LISTS[name]
    files = [f"data/gemm_bf16_h200.{file}.parquet" for file in files]
    return json.loads(kscout("evaluate", "--model", model.format(of_set), "--data", *files, "--problems",
                             f"{folder}/{name}.held_out.txt", "--pool", pool, "--format", "json", *flags))


def print_row(name, layout, result):
    efficiency, speed = result["efficiency"], result["against_suggestion"]
    print(f"| {layout} `{name}` | {result['problems']} | {efficiency['mean']:.2f} | {efficiency['p10']:.1f} | "
          f"{efficiency['min']:.1f} | {result['top_k']['3']['mean']:.2f} | {speed['geomean']:.3f} | {speed['p10']:.3f} | "
          f"{speed['min']:.3f} | {speed['picks_of_suggestion']} | {result['unmeasured_picks']} | {result['coarse_picks']} |")


def tables(folder, model="models/gemm_bf16_h200", *flags):
    print("| problems | number | mean | P10 | worst | top-3 | over the first suggestion | P10 | worst | suggestions taken | "
          "unmeasured | coarse |\n|---|" + "---:|" * 11)
    claims = {}
    for name in LISTS:
        with open(f"{folder}/{name}.held_out.txt", encoding="utf-8") as file:
            layouts = {line.strip().split(":")[3] for line in file}
        for layout in LAYOUTS:
            if layout in layouts:
                print_row(name, layout, evaluate(folder, model, name, *flags, "--layout", layout))
        whole = evaluate(folder, model, name, *flags)
        print_row(name, "all", whole)
        claims[name] = whole["confidence"]["bins"]
    print("\n| set | confidence from % | problems | claimed | observed | off by, points |\n|---|" + "---:|" * 5)
    for name, bins in claims.items():
        for part in bins:
            print(f"| `{name}` | {part['from']} | {part['problems']} | {part['claimed']:.1f} | {part['observed']:.1f} | "
                  f"{part['claimed'] - part['observed']:.1f} |")
        for level, first, end in (("low", 0, 60), ("medium", 60, 80), ("high", 80, 101)):
            within = [part for part in bins if first <= part["from"] < end]
            if number := sum(part["problems"] for part in within):
                right = sum(part["problems"] * part["observed"] for part in within) / number
                print(f"| `{name}` | {level} | {number} | | {right:.1f} | |")


if __name__ == "__main__":
    verb = {"lists": lists, "tables": tables}.get(sys.argv[1] if len(sys.argv) > 2 else "")
    if not verb:
        sys.exit(__doc__)
    verb(*sys.argv[2:])
