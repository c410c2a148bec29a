#!/usr/bin/env python3
"""Golden values of the feature schemas ck_gemm_55, ck_gemm_72 and ck_gemm_78.

    python3 tests/golden/ck_gemm_reference.py        # writes ck_gemm_55.csv, ck_gemm_72.csv and ck_gemm_78.csv beside itself

Written from the published description of the CK Tile GEMM feature engine alone (names, order, formulas, encodings, guards),
without looking at families/features_ck_gemm_*.toml; tests/golden/ck_gemm_test.cpp compares the two. Integers stay integers as
long as the description says so: Python's do not round.
"""
import csv
import itertools
import math
import pathlib
import random

BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "bf8": 1.0, "int8": 1.0, "int4": 0.5}
LAYOUT = {"rcr": 0, "rrr": 1, "crr": 2, "ccr": 3}
PIPELINE = {"compv3": 0, "compv4": 1, "compv5": 2, "mem": 3, "preshufflev2": 4, "basic_v1": 5, "compv6": 6}
SCHEDULER = {"intrawave": 0, "interwave": 1}
EPILOGUE = {"default": 0, "cshuffle": 1}

PROBLEM = ["m", "n", "k", "split_k", "dtype", "layout"]
KERNEL = ["tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_k", "warp_tile_m", "warp_tile_n", "warp_tile_k", "pipeline",
          "scheduler", "epilogue", "pad_m", "pad_n", "pad_k", "persistent"]
HARDWARE = ["num_cus", "simds_per_cu", "shader_engines", "max_clock_mhz", "max_waves_per_cu", "wavefront_size", "lds_capacity",
            "l1_cache_kb", "l2_cache_kb", "l3_cache_kb", "num_xcd"]
PROFILES = {
    "gfx950": [256, 4, 32, 2400, 32, 64, 65536, 32, 4096, 262144, 8],
    "gfx942": [228, 4, 28, 2100, 32, 64, 65536, 32, 4096, 262144, 8],
    "gfx90a": [110, 4, 8, 1700, 32, 64, 65536, 16, 8192, 131072, 1],
    "large_lds": [256, 4, 32, 2400, 32, 64, 163840, 32, 4096, 262144, 8],
    "small": [1, 2, 1, 1000, 16, 32, 32768, 8, 512, 1024, 1],
}


def at_least_1(x):
    return x if x > 1 else 1


def log2_of(x):
    return math.log2(at_least_1(x))


def tile_efficiency(size, tile):
    if tile <= 0:
        return 1.0
    rest = size % tile
    return rest / tile if rest > 0 else 1.0


def head(p, kernel, hw):
    """Features 0 to 42."""
    m, n, k = p["m"], p["n"], p["k"]
    tm, tn, tk = kernel["tile_m"], kernel["tile_n"], kernel["tile_k"]
    bpe = BYTES[p["dtype"]]
    lds = (tm + tn) * tk * bpe
    cap = 32768 if kernel["pipeline"].startswith("compv4") else hw["lds_capacity"]
    tiles = [math.ceil(m / at_least_1(tm)), math.ceil(n / at_least_1(tn)), math.ceil(k / at_least_1(tk))]
    efficiency = [tile_efficiency(m, tm), tile_efficiency(n, tn), tile_efficiency(k, tk)]
    values = {
        "M": m, "N": n, "K": k, "split_k": p["split_k"],
        "log2_M": log2_of(m), "log2_N": log2_of(n), "log2_K": log2_of(k), "log2_MNK": log2_of(m * n * k),
        "arithmetic_intensity": 2 * m * n * k / at_least_1((m * k + k * n + m * n) * bpe),
        "aspect_ratio_mn": m / at_least_1(n), "aspect_ratio_mk": m / at_least_1(k), "aspect_ratio_nk": n / at_least_1(k),
        "layout": LAYOUT[p["layout"]],
    }
    for name in KERNEL[:9]:
        values[name] = kernel[name]
    values["pipeline"] = PIPELINE[kernel["pipeline"]]
    values["scheduler"] = SCHEDULER[kernel["scheduler"]]
    values["epilogue"] = EPILOGUE[kernel["epilogue"]]
    for name in KERNEL[12:]:
        values[name] = kernel[name]
    values["num_warps"] = kernel["warp_m"] * kernel["warp_n"] * kernel["warp_k"]
    values["tile_volume"] = tm * tn * tk
    values["tile_mn"] = tm * tn
    values["lds_usage_estimate"] = lds
    values["lds_usage_ratio"] = lds / at_least_1(cap)
    values["num_tiles_m"], values["num_tiles_n"], values["num_tiles_k"] = tiles
    values["total_output_tiles"] = tiles[0] * tiles[1]
    values["tile_eff_m"], values["tile_eff_n"], values["tile_eff_k"] = efficiency
    values["overall_tile_efficiency"] = efficiency[0] * efficiency[1] * efficiency[2]
    values["cu_utilization"] = tiles[0] * tiles[1] / at_least_1(hw["num_cus"])
    return values


def fit(p, kernel):
    """Features 43 to 59 of the 72."""
    values, needs, has, missing = {}, {}, {}, {}
    sizes = {"m": p["m"], "n": p["n"], "k": p["k"]}
    for axis, size in sizes.items():
        tile = kernel[f"tile_{axis}"]
        values[f"ratio_{axis.upper()}_to_tile_{axis}"] = size / at_least_1(tile)
    small = {axis: int(size < kernel[f"tile_{axis}"]) for axis, size in sizes.items()}
    for axis in sizes:
        values[f"problem_smaller_than_tile_{axis}"] = small[axis]
    values["any_dim_too_small"] = int(any(small.values()))
    for axis, size in sizes.items():
        tile = kernel[f"tile_{axis}"]
        needs[axis] = int(tile > 0 and size % tile != 0)
        has[axis] = int(needs[axis] and kernel[f"pad_{axis}"] == 1)
        missing[axis] = int(needs[axis] and kernel[f"pad_{axis}"] == 0)
    for name, flags in [("needs_padding", needs), ("has_padding_when_needed", has), ("missing_required_padding", missing)]:
        for axis in sizes:
            values[f"{name}_{axis}"] = flags[axis]
    values["missing_any_required_padding"] = int(any(missing.values()))
    return values


def hardware(hw):
    values = {}
    for name in HARDWARE:
        values[f"hw_{name}"] = hw[name]
        if name == "simds_per_cu":
            values["hw_total_simds"] = hw["num_cus"] * hw["simds_per_cu"]
    return values


def features_55(p, kernel, hw):
    return {**head(p, kernel, hw), **hardware(hw)}


def features_72(p, kernel, hw):
    return {**head(p, kernel, hw), **fit(p, kernel), **hardware(hw)}


def native_load(size, extent, run, tile_k, threads):
    """Widest of 16, 8, 4 and 2 bytes that divides a tile's rows and a thread's share; 4 and 2 bytes only for elements as large."""
    share = extent * tile_k // threads
    for step in (16, 8, 4, 2):
        width = step // size
        if (step >= 8 or size >= step) and width >= 1 and run % width == 0 and share % width == 0:
            return width
    return 1


def widths(p, kernel):
    """Features 72 to 77: fixed widths, and what is in effect over the widest legal width."""
    size = int(BYTES[p["dtype"]])
    size_c = {"fp8": 2, "bf8": 2, "int8": 4}.get(p["dtype"], size)
    a_rows, b_rows = p["layout"][0] == "r", p["layout"][1] == "r"
    tm, tn, tk = kernel["tile_m"], kernel["tile_n"], kernel["tile_k"]
    threads = 64 * kernel["warp_m"] * kernel["warp_n"] * kernel["warp_k"]
    store = min(kernel["warp_tile_n"] * kernel["warp_n"], 16 // size_c) if kernel["epilogue"] == "cshuffle" else 1
    native = [native_load(size, tm, tk if a_rows else tm, tk, threads), native_load(size, tn, tn if b_rows else tk, tk, threads), store]
    runs = [p["k"] if a_rows else p["m"], p["n"] if b_rows else p["k"], p["n"]]
    legal = [math.gcd(run, 16 // size) for run, size in zip(runs, (size, size, size_c))]
    fixed = [kernel[f"vec_{operand}"] for operand in "abc"]
    values = {f"vec_{operand}": width for operand, width in zip("abc", fixed)}
    values.update({f"vec_frac_{operand}": (one or own) / widest for operand, one, own, widest in zip("abc", fixed, native, legal)})
    return values


def features_78(p, kernel, hw):
    return {**features_72(p, kernel, hw), **widths(p, kernel)}


def cases_with_widths():
    rng = random.Random(20261125)
    for p, kernel, hw in cases():
        if p["dtype"] == "int4" or min(p["m"], p["n"], p["k"]) < 1:
            continue
        for operand in "abc":
            kernel[f"vec_{operand}"] = rng.choice([0, 0, 1, 2, 4, 8])
        yield p, {**kernel, "arch": rng.choice(["gfx90a", "gfx942", "gfx950"])}, hw


def kernel_of(rng, pipeline):
    return dict(zip(KERNEL, [rng.choice([16, 32, 64, 96, 128, 192, 256]), rng.choice([16, 32, 64, 128, 160, 256]),
                             rng.choice([16, 32, 64, 128, 256]), rng.choice([1, 2, 4]), rng.choice([1, 2, 4]), rng.choice([1, 2]),
                             rng.choice([4, 16, 32, 64]), rng.choice([4, 16, 32, 64]), rng.choice([8, 16, 32, 128]), pipeline,
                             rng.choice(list(SCHEDULER)), rng.choice(list(EPILOGUE)), rng.randint(0, 1), rng.randint(0, 1),
                             rng.randint(0, 1), rng.randint(0, 1)]))


def cases():
    rng = random.Random(20240601)
    sizes = [(1, 1, 1), (0, 0, 0), (128, 128, 0), (0, 64, 64), (1, 4096, 4096), (4096, 1, 4096), (4096, 4096, 1), (17, 31, 37),
             (127, 251, 509), (1021, 2039, 4093), (128, 128, 64), (129, 129, 65), (127, 127, 63), (256, 256, 8192),
             (8192, 8192, 32), (16384, 64, 1024), (64, 16384, 1024), (20480, 7168, 7168), (1, 28672, 8192), (3, 5, 7),
             (1 << 20, 1 << 20, 1 << 20), (2147483647, 2, 3), (7168, 7168, 20480), (48, 96, 192)]
    combinations = itertools.cycle(itertools.product(PIPELINE, LAYOUT, BYTES))
    for i in range(260):
        pipeline, layout, dtype = next(combinations)
        m, n, k = sizes[i] if i < len(sizes) else [rng.choice([rng.randint(1, 300), rng.randint(1, 20000)]) for _ in range(3)]
        p = dict(zip(PROBLEM, [m, n, k, rng.choice([1, 1, 2, 4, 16]), dtype, layout]))
        hw = dict(zip(HARDWARE, PROFILES[list(PROFILES)[i % len(PROFILES)]]))
        yield p, kernel_of(rng, pipeline), hw


def write(path, features, rows, more=()):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        for i, (p, kernel, hw) in enumerate(rows):
            values = features(p, kernel, hw)
            axes = [*KERNEL, *more]
            if i == 0:
                out.writerow([f"in.{name}" for name in PROBLEM + axes + HARDWARE] + list(values))
            out.writerow([row[name] for row, names in ((p, PROBLEM), (kernel, axes), (hw, HARDWARE)) for name in names] +
                         [repr(float(value)) for value in values.values()])


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent
    write(folder / "ck_gemm_55.csv", features_55, cases())
    write(folder / "ck_gemm_72.csv", features_72, cases())
    write(folder / "ck_gemm_78.csv", features_78, cases_with_widths(), ("vec_a", "vec_b", "vec_c", "arch"))
