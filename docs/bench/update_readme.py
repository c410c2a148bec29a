#!/usr/bin/env python3
"""Puts benchmark results into the README: ./dev readme.

Reads docs/bench/results.txt: any output that holds lines `RESULT <name> <value> <unit>`, and comment lines that start with `#`, of
which `# machine: ...` and `# commit: ...` are shown. Rewrites the text between the two marks in README.md, and nothing else.
`--check` changes nothing and fails when the README is out of date.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results: ./dev readme -->", "<!-- end of results -->"

# The results that the README shows, at most 15, in the order of the table. Those that results.txt lacks are left out.
SHOWN = (
    "gemm_cpu.geomean_vs_best_peer",
    "conv_cpu.fwd_geomean_vs_onednn",
    "conv_cpu.bwd_data_geomean_vs_onednn",
    "conv_cpu.bwd_weight_geomean_vs_onednn",
    "evaluate.gemm_mean",
    "evaluate.conv_fwd_mean",
    "gemm_cuda.geomean_vs_cublaslt",
    "gemm_cuda.p10_vs_cublaslt",
    "gemm_cuda.min_vs_cublaslt",
    "gemm_cuda.geomean_vs_cublaslt_best_of_8",
    "evaluate.conv_fwd_h200_vs_cudnn",
    "evaluate.conv_bwd_data_h200_vs_cudnn",
    "evaluate.conv_bwd_weight_h200_vs_cudnn",
    "select.cached_ns",
    "search.measured_with_model_share",
)

# What each result means. A result that has no line here is an error: say what it means.
MEANING = {
    "gemm_cpu.geomean_vs_best_peer": "CPU: speed of the best config, relative to the faster of OpenBLAS and oneDNN; geometric mean of 82 problems",
    "gemm_cpu.min_vs_best_peer": "CPU: speed of the best config, relative to the faster of OpenBLAS and oneDNN; worst problem",
    "conv_cpu.fwd_geomean_vs_onednn": "CPU, forward convolution: speed of the best config, relative to oneDNN; geometric mean of 54 problems",
    "conv_cpu.bwd_data_geomean_vs_onednn": "CPU, convolution's gradient of the input: the same, 36 problems",
    "conv_cpu.bwd_weight_geomean_vs_onednn": "CPU, convolution's gradient of the filter: the same, 41 problems",
    "conv_cpu.min_vs_onednn": "CPU, convolution in three directions: the same ratio, worst problem",
    "evaluate.conv_fwd_h200_vs_cudnn": "H200, bf16, forward convolutions of networks: speed of the model's pick, relative to cuDNN's first suggestion; geometric mean of 240 held-out problems",
    "evaluate.conv_bwd_data_h200_vs_cudnn": "H200, bf16, gradients of the input: the same, 238 problems",
    "evaluate.conv_bwd_weight_h200_vs_cudnn": "H200, bf16, gradients of the filter: the same, 240 problems",
    "grouped.geomean_vs_launches": "CPU: speed of a grouped GEMM, relative to one GEMM per group; geometric mean of 40 layers of experts",
    "grouped.geomean_vs_padded": "the same, relative to a padded batch",
    "gemm_cpu.configs_best_somewhere": "configs of rule set `default` that are the best of at least one of the 982 training problems",
    "gemm_cpu.most_wins_of_one_config": "share of the problems that the most frequent winner wins",
    "sweep.per_second": "measurements per second in a sweep on a CPU",
    "sweep.overhead": "share of a sweep's time outside kernels, flushes and verification",
    "evaluate.gemm_mean": "CPU: efficiency of the picks on 168 held-out GEMMs, mean",
    "evaluate.gemm_p10": "the same, tenth percentile",
    "evaluate.gemm_static_mean": "the same, best fixed config, mean",
    "evaluate.conv_fwd_mean": "CPU: the same, 46 forward convolutions",
    "evaluate.conv_fwd_p10": "the same, tenth percentile",
    "evaluate.conv_fwd_static_mean": "the same, best fixed config, mean",
    "evaluate.conv_bwd_data_mean": "the same for gradients of the input",
    "evaluate.conv_bwd_data_p10": "the same, tenth percentile",
    "evaluate.conv_bwd_data_static_mean": "the same, best fixed config, mean",
    "evaluate.conv_bwd_weight_mean": "the same for gradients of the filter",
    "evaluate.conv_bwd_weight_p10": "the same, tenth percentile",
    "evaluate.conv_bwd_weight_static_mean": "the same, best fixed config, mean",
    "select.exact_vs_lightgbm": "LightGBM's time to score 32 configs over ours, features included, caches emptied",
    "select.cold_us_1000": "choice for a new problem among 1,008 configs, caches emptied, median",
    "select.cold_us_2404": "the same among 2,404 configs of CK Tile's convolution",
    "select.cold_us_4608": "the same among 4,608 configs of CK Tile's GEMM",
    "select.cold_us_bf16_h200": "the same among what cuBLASLt lists and CUTLASS's kernels, bf16 GEMMs on an H200",
    "select.cold_us_conv_fwd_h200": "the same among what cuDNN lists and own kernels, forward convolutions on an H200",
    "select.cached_ns": "time to choose for a problem seen before, 64 problems in use, median, a GPU's host",
    "select.cached_ns_4096": "the same with 4,096 problems in use, in random order",
    "select.cached_scaling_16": "hits a second of 16 threads over 16 times those of one, 4,096 problems in use",
    "forest.start_to_first_choice_ms": "start of a program to its first choice, model of 500 x 31 and 1,014 configs",
    "forest.load_ms": "reading that model, every check included",
    "forest.load_vs_lightgbm": "LightGBM's time to read the same trees over ours for the whole model",
    "forest.text_vs_lightgbm": "the same for LightGBM's text",
    "forest.heap_per_file": "memory of a selector over that model, after a choice, over the file",
    "forest.peak_bytes": "most memory while it loads and first chooses",
    "gemm_cuda.geomean_vs_cublaslt": "H200, bf16: speed of the model's pick, relative to cuBLASLt's first suggestion; geometric mean of 2,287 problems of four sets in four layouts",
    "gemm_cuda.p10_vs_cublaslt": "H200, bf16: the same ratio, tenth percentile",
    "gemm_cuda.min_vs_cublaslt": "H200, bf16: the same ratio, worst problem",
    "gemm_cuda.geomean_vs_cublaslt_best_of_8": "H200, bf16: the same, relative to the fastest of cuBLASLt's eight suggestions",
    "gemm_cuda.geomean_vs_torch": "H200, bf16: the same, relative to PyTorch",
    "gemm_cuda.geomean_vs_nvmmh_top1": "H200, bf16, an earlier model, 409 held-out problems in rcr: the same, relative to nvMatmulHeuristics' first CUTLASS kernel",
    "gemm_cuda.geomean_vs_nvmmh_top8": "the same over the fastest of its eight, found by timing them",
    "gemm_cuda.cold_us": "time to choose for a new problem among 433 configs, median, the H200's host",
    "gemm_cuda.cached_ns": "choice for a problem that was asked before, the GPU's host",
    "gemm_cuda.cublaslt_cold_us": "cuBLASLt's time to name one suggestion for a new problem, median, the same host",
    "gemm_cuda.cublaslt_again_us": "the same again",
    "import.mb_per_second": "a benchmark log of 1 GB read into rows, one core",
    "import.peak_mb": "most memory while it is read",
    "family.full_first_ms": "listing CK Tile's 14,048 convolution configs of rule set `full`, family files read on the way",
    "family.full_ms": "the same again in that process",
    "search.measured_with_model_share": "share of the best measured speed that `kscout search --measure` finds by timing 5 % of the configs",
    "search.measured_without_model_share": "the same without a model for the device, at least 24",
    "moe.efficiency_mean": "H100: share of the best speed that a tuned table of a mixture-of-experts layer reaches, stored times, mean of four layers",
    "moe.efficiency_least_table": "the same for the worst of the four tables",
    "moe.geomean_vs_default": "H100: speed of the table's configs, relative to the engine's default config; geometric mean",
    "moe.min_vs_default": "the same ratio, worst number of tokens",
    "triton_model_2_efficiency": "H100: share of the best speed of a Triton matmul's config, the model's best two timed; mean of 27 shapes",
    "triton_model_2_preparation": "time to prepare a new shape, as a share of triton.autotune's",
}


def parse_results(text):
    """({name: (value, unit)} with the last value of each name, {note: text})."""
    results, notes = {}, {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("RESULT "):
            if len(words) < 3:
                raise SystemExit(f"docs/bench/results.txt: not a result: {line}")
            results[words[1]] = (float(words[2]), " ".join(words[3:]))
        elif note := re.match(r"# (machine|commit): (.+)", line):
            notes[note[1]] = note[2]
    return results, notes


def shown(value, unit):
    if unit in ("", "1", "ratio"):
        return f"{value:.3g}"
    return f"{value:.4g} {unit}"


def table(results, notes):
    unknown = sorted(set(results) - set(MEANING))
    if unknown:
        raise SystemExit(f"docs/bench/update_readme.py: say in MEANING what {', '.join(unknown)} is")
    lines = ["| result | value | what it is |", "|---|---|---|"]
    lines += [f"| `{name}` | {shown(*results[name])} | {MEANING[name]} |" for name in SHOWN if name in results]
    origin = ", ".join(f"{key} {text}" for key, text in notes.items())
    return "\n".join(lines) + (f"\n\nMeasured on: {origin}." if origin else "")


def main():
    results, notes = parse_results((ROOT / "docs/bench/results.txt").read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise SystemExit(f"README.md needs the marks '{BEGIN}' and '{END}' once each")
    head, rest = old.split(BEGIN)
    new = f"{head}{BEGIN}\n{table(results, notes)}\n{END}{rest.split(END)[1]}"
    if new == old:
        return
    if "--check" in sys.argv[1:]:
        raise SystemExit("README.md does not show docs/bench/results.txt: run ./dev readme")
    readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
