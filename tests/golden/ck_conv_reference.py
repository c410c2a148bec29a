#!/usr/bin/env python3
"""Golden values of the feature schemas ck_conv_83, ck_conv_97, ck_conv_113 and of their parts.

    python3 tests/golden/ck_conv_reference.py        # writes ck_conv_83.csv, ck_conv_97.csv and ck_conv_113.csv beside itself

Written from the published description of the CK Tile grouped-convolution feature engine, as procedures over a problem and a kernel,
without the formulas in families/features_ck_conv_*.toml; tests/golden/ck_conv_test.cpp compares the two. Other schemas are lists of
names of these three, whose tables serve them too.
"""
import csv
import math
import pathlib
import random

from ck_gemm_reference import HARDWARE, PIPELINE, PROFILES, at_least_1, hardware, log2_of, tile_efficiency

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "bf8": 1, "int8": 1, "int4": 0.5}
PROBLEM = ["n", "c", "k", "g", "d", "h", "w", "z", "y", "x", "stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h",
           "dilation_w", "pad_d", "pad_h", "pad_w", "dtype"]
KERNEL = ["tile_m", "tile_n", "tile_k", "warp_m", "warp_n", "warp_k", "pipeline", "scheduler", "double_buffer", "split_image"]


def out_size(size, pad, reach, stride):
    return (size + 2 * pad - reach) // stride + 1


class Shape:
    """Sizes that both engines derive; `new` knows depth and dilation."""

    def __init__(self, p, new):
        reach = (lambda edge, dilation: (edge - 1) * dilation + 1) if new else (lambda edge, dilation: edge)
        self.ho = out_size(p["h"], p["pad_h"], reach(p["y"], p["dilation_h"]), p["stride_h"])
        self.wo = out_size(p["w"], p["pad_w"], reach(p["x"], p["dilation_w"]), p["stride_w"])
        self.is_3d = new and (p["d"] > 1 or p["z"] > 1 or p["pad_d"] > 0)
        self.do = out_size(p["d"], p["pad_d"], reach(p["z"], p["dilation_d"]), p["stride_d"]) if self.is_3d else 1
        self.spatial = p["h"] * p["w"] * (p["d"] if self.is_3d else 1)
        self.filter = p["y"] * p["x"] * (p["z"] if self.is_3d else 1)
        self.output = self.ho * self.wo * (self.do if self.is_3d else 1)
        self.cpg, self.kpg = p["c"] / at_least_1(p["g"]), p["k"] / at_least_1(p["g"])
        self.bpe = BYTES.get(p["dtype"], 2)


def problem_features(p, s, new):
    v = {"N": p["n"], "C": p["c"], "K": p["k"], "G": p["g"], "Hi": p["h"], "Wi": p["w"], "Y": p["y"], "X": p["x"],
         "stride_h": p["stride_h"], "stride_w": p["stride_w"], "pad_h": p["pad_h"], "pad_w": p["pad_w"], "Ho": s.ho, "Wo": s.wo}
    for name in ["N", "C", "K", "G", "Hi", "Wi"]:
        v["log2_" + name] = log2_of(v[name])
    v["log2_spatial"], v["log2_filter"], v["log2_output"] = log2_of(s.spatial), log2_of(s.filter), log2_of(s.output)
    traffic = p["n"] * p["c"] * s.spatial + p["k"] * s.cpg * s.filter + p["n"] * p["k"] * s.output
    v["arithmetic_intensity"] = 2 * p["n"] * p["k"] * s.output * s.cpg * s.filter / at_least_1(traffic * s.bpe)
    v["filter_area"] = s.filter
    edges = {p["y"], p["x"]} | ({p["z"]} if s.is_3d else set())
    v["is_1x1_conv"] = int(p["y"] == 1 and p["x"] == 1 and (not new or p["z"] == 1))
    v["is_3x3_conv"] = int(edges == {3})
    v["channels_per_group"] = s.cpg
    v["aspect_ratio_hw"], v["aspect_ratio_filter"] = p["h"] / at_least_1(p["w"]), p["y"] / at_least_1(p["x"])
    if new:
        v.update({"is_3d": int(s.is_3d), "Di": p["d"], "Z": p["z"], "Do": s.do, "stride_d": p["stride_d"], "pad_d": p["pad_d"],
                  "dilation_h": p["dilation_h"], "dilation_w": p["dilation_w"]})
    v["log2_channels_per_group"], v["log2_output_channels_per_group"] = log2_of(s.cpg), log2_of(s.kpg)
    v["is_depthwise"] = int(p["g"] == p["c"] == p["k"])
    v["group_density"] = p["g"] / at_least_1(p["c"])
    v["is_small_group"] = int(min(s.cpg, s.kpg) < 16)
    v["channels_product_per_group"] = s.cpg * s.kpg
    v["batch_group_product"] = p["n"] * p["g"]
    v["is_small_batch_grouped"] = int(p["n"] < 8 and p["g"] > 1)
    if new:
        v["K_per_C"] = p["k"] / at_least_1(p["c"])
    return v


def kernel_features(kernel, s, hw, block, tm, tn, step, new):
    v = {"block_size": block, "gemm_m_per_block": tm, "gemm_n_per_block": tn}
    if new:
        v["gemm_k_per_block"] = step
    pipeline = kernel["pipeline"]
    v["pipeline"] = PIPELINE.get(pipeline, 0)
    v["num_warps"], v["tile_volume"], v["tile_mn"] = block / 4, tm * tn * step, tm * tn
    v["lds_usage_estimate"] = (tm + tn) * step * s.bpe
    v["lds_usage_ratio"] = v["lds_usage_estimate"] / at_least_1(32768 if pipeline == "compv4" else hw["lds_capacity"])
    v["block_tile_ratio_m"], v["block_tile_ratio_n"] = tm / at_least_1(block), tn / at_least_1(block)
    v["block_efficiency"] = min(tm, tn) / max(tm, tn, 1)
    for version in "345":
        v["is_compv" + version] = int(pipeline == "compv" + version)
    if new:
        v.update({"is_intrawave": int(kernel["scheduler"] == "intrawave"), "has_dsb": kernel["double_buffer"],
                  "has_si": kernel["split_image"], "is_basic": int(pipeline.startswith("basic_v")),
                  "is_compv6": int(pipeline == "compv6"), "is_mem": int(pipeline == "mem")})
    return v


def interaction_features(p, s, hw, tm, tn, step):
    gm, gn, gk = p["n"] * s.output, p["k"], int(s.cpg * s.filter)
    tiles = [math.ceil(size / at_least_1(tile)) for size, tile in ((gm, tm), (gn, tn), (gk, step))]
    efficiency = [tile_efficiency(size, tile) for size, tile in ((gm, tm), (gn, tn), (gk, step))]
    v = {"gemm_m_output": gm, "gemm_n_output": gn, "gemm_k_output": gk}
    v.update({f"num_tiles_{axis}": count for axis, count in zip("mnk", tiles)})
    v["total_output_tiles"] = tiles[0] * tiles[1]
    v.update({f"tile_eff_{axis}": value for axis, value in zip("mnk", efficiency)})
    v["overall_tile_efficiency"] = math.prod(efficiency)
    v["cu_utilization"] = tiles[0] * tiles[1] / at_least_1(hw["num_cus"])
    for axis, size, tile in zip("mnk", (gm, gn, gk), (tm, tn, step)):
        v[f"ratio_gemm_{axis}_to_tile_{axis}"] = size / at_least_1(tile)
    for axis, size, tile in zip("mnk", (gm, gn, gk), (tm, tn, step)):
        v[f"problem_smaller_than_tile_{axis}"] = int(size < tile)
    return v


def occupancy_features(v, hw):
    cus = at_least_1(hw["num_cus"])
    total, gm, gn = v["total_output_tiles"], v["gemm_m_output"], v["gemm_n_output"]
    out = {"log_gemm_m_n_ratio": math.log(at_least_1(gm) / at_least_1(gn)), "log_total_output_tiles": math.log(at_least_1(total)),
           "log_num_tiles_m": math.log(at_least_1(v["num_tiles_m"]))}
    out["is_mem_x_log_num_tiles_m"] = v["is_mem"] * out["log_num_tiles_m"]
    out["log_gemm_m_raw"] = math.log(at_least_1(gm))
    out["gemm_m_lt_num_cus"] = int(gm < hw["num_cus"])
    out["log_gemm_m_over_num_cus"] = math.log(at_least_1(gm) / cus)
    out["is_mem_x_log_gemm_m_raw"] = v["is_mem"] * out["log_gemm_m_raw"]
    out["log_cu_fill"] = math.log(max(total / cus, 1e-6))
    out["k_tiles_over_mn_tiles"] = v["num_tiles_k"] / at_least_1(total)
    out["waves_per_max_occ"] = total / at_least_1(hw["num_cus"] * hw["max_waves_per_cu"])
    out["wave_quant_efficiency"] = total / at_least_1(math.ceil(total / cus) * cus)
    out["log_k_per_active_cu"] = math.log(max(v["num_tiles_k"] / at_least_1(min(total, cus)), 1e-6))
    out["is_subwave"] = int(total < cus)
    return out


def features_83(p, kernel, hw):
    s = Shape(p, False)
    # The three sizes of a name are read one place off.
    block, tm, tn = kernel["tile_m"], kernel["tile_n"], kernel["tile_k"]
    return {**problem_features(p, s, False), **kernel_features(kernel, s, hw, block, tm, tn, block, False),
            **interaction_features(p, s, hw, tm, tn, block), **hardware(hw)}


def features_97(p, kernel, hw):
    s = Shape(p, True)
    # Read one place off, as in the 83.
    block, tm, tn = kernel["tile_m"], kernel["tile_n"], kernel["tile_k"]
    of_problem, of_kernel = problem_features(p, s, True), kernel_features(kernel, s, hw, block, tm, tn, block, True)
    del of_problem["K_per_C"], of_kernel["gemm_k_per_block"]
    return {**of_problem, **of_kernel, **interaction_features(p, s, hw, tm, tn, block), **hardware(hw)}


def features_113(p, kernel, hw):
    s = Shape(p, True)
    tm, tn, step = kernel["tile_m"], kernel["tile_n"], kernel["tile_k"]
    block = 64 * kernel["warp_m"] * kernel["warp_n"] * kernel["warp_k"]
    v = {**problem_features(p, s, True), **kernel_features(kernel, s, hw, block, tm, tn, step, True),
         **interaction_features(p, s, hw, tm, tn, step)}
    return {**v, **occupancy_features(v, hw), **hardware(hw)}


def problem_of(rng):
    depth = rng.random() < 0.3
    groups = rng.choice([1, 1, 1, 2, 4, 32])
    p = {"n": rng.choice([1, 2, 7, 16]), "c": groups * rng.choice([1, 3, 8, 64, 250]), "k": groups * rng.choice([1, 8, 96, 512]),
         "g": groups, "d": rng.choice([4, 9]) if depth else 1, "h": rng.randint(9, 60), "w": rng.randint(9, 60),
         "z": rng.choice([1, 3]) if depth else 1, "y": rng.choice([1, 3, 3, 5]), "x": rng.choice([1, 3, 3, 5])}
    for axis in "dhw":
        flat = axis == "d" and not depth
        p["stride_" + axis] = 1 if flat else rng.choice([1, 1, 2])
        p["dilation_" + axis] = 1 if flat else rng.choice([1, 1, 2])
        p["pad_" + axis] = 0 if flat else rng.choice([0, 1, 2])
    p["dtype"] = rng.choice(["fp32", "fp16", "bf16", "fp8", "int8"])
    if rng.random() < 0.15:
        p["c"] = p["k"] = p["g"]
    return p


def kernel_of(rng):
    return {"tile_m": rng.choice([16, 32, 64, 128, 256]), "tile_n": rng.choice([16, 64, 128, 192]), "tile_k": rng.choice([32, 64, 128]),
            "warp_m": rng.choice([1, 2, 4]), "warp_n": rng.choice([1, 2, 4]), "warp_k": 1,
            "pipeline": rng.choice(["compv3", "compv4", "compv5", "mem", "basic_v1", "compv6", "comp_async", "wavelet"]),
            "scheduler": rng.choice(["intrawave", "interwave"]), "double_buffer": rng.randint(0, 1), "split_image": rng.randint(0, 1)}


def main():
    here = pathlib.Path(__file__).parent
    for name, features, count in [("ck_conv_83", features_83, 83), ("ck_conv_97", features_97, 97), ("ck_conv_113", features_113, 113)]:
        rng = random.Random(20250117)
        with open(here / f"{name}.csv", "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            for case in range(220):
                p, kernel = problem_of(rng), kernel_of(rng)
                hw = dict(zip(HARDWARE, PROFILES[rng.choice(list(PROFILES))]))
                values = features(p, kernel, hw)
                assert len(values) == count, (name, len(values))
                if case == 0:
                    writer.writerow(["in." + key for key in [*PROBLEM, *KERNEL, *HARDWARE]] + list(values))
                inputs = [p[key] for key in PROBLEM] + [kernel[key] for key in KERNEL] + [hw[key] for key in HARDWARE]
                writer.writerow(inputs + [repr(value) if isinstance(value, float) else value for value in values.values()])


if __name__ == "__main__":
    main()
