#!/usr/bin/env python3
"""Times of `torch.mm` in stock PyTorch on a GPU, for benchmarks that compare with it (gemm_odd and gemm_cuda, option --torch).

    kscout problems odd_sizes --count 0 --dtype bf16 > odd.txt
    python3 bench/torch_times.py --problems odd.txt --csv torch.csv

Reads lines such as `gemm:16x4096x4096:bf16:rcr`. As in these benchmarks, caches are cold and the GPU's events count: the median of
nine samples. Writes columns problem and torch_us; a product that PyTorch cannot compute is named and left out.
"""
import argparse
import csv
import re
import statistics
import sys

LINE = re.compile(r"gemm:(\d+)x(\d+)x(\d+):(bf16|fp16):([rc])([rc])r(:weight=[^:]+)?$")
SAMPLES, FLUSHED_BYTES = 9, 256 << 20


class Timer:
    def __init__(self):
        import torch
        self.torch = torch
        if not torch.cuda.is_available():
            sys.exit("torch_times: PyTorch finds no GPU")
        torch.manual_seed(1)
        self.flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")

    def about(self):
        return f"{self.torch.cuda.get_device_name()}, PyTorch {self.torch.__version__}, CUDA {self.torch.version.cuda}"

    def median_us(self, m, n, k, dtype, a_row_major, b_row_major):
        """Microseconds; throws torch's errors."""
        torch = self.torch

        def matrix(rows, columns, row_major):
            shape = (rows, columns) if row_major else (columns, rows)
            made = torch.empty(shape, dtype=dtype, device="cuda").uniform_(-0.5, 0.5)
            return made if row_major else made.t()
        a, b = matrix(m, k, a_row_major), matrix(k, n, b_row_major)
        out = torch.empty((m, n), dtype=dtype, device="cuda")
        torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
        for begin, end in pairs:
            self.flushed.zero_()  # takes the GPU longer than the CPU takes to queue the product
            begin.record()
            torch.mm(a, b, out=out)
            end.record()
        torch.cuda.synchronize()
        return statistics.median(1e3 * begin.elapsed_time(end) for begin, end in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", required=True, help="file of one-line forms")
    parser.add_argument("--csv", required=True, help="file for the times")
    asked = parser.parse_args()
    with open(asked.problems, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    timer = Timer()
    types = {"bf16": timer.torch.bfloat16, "fp16": timer.torch.float16}
    timed = []
    for line in lines:
        match = LINE.match(line)
        if not match:
            sys.exit(f"torch_times: {asked.problems}: '{line}': only plain GEMMs in bf16 or fp16 with a row-major C are timed, such as "
                     "gemm:16x4096x4096:bf16:rcr")
        m, n, k = map(int, match.groups()[:3])
        try:
            us = timer.median_us(m, n, k, types[match[4]], match[5] == "r", match[6] == "r")
            timed.append((line, f"{us:.3f}"))
        except RuntimeError as error:  # out of memory, too
            print(f"left out: {line}: {str(error).splitlines()[0]}")
        timer.torch.cuda.empty_cache()
    with open(asked.csv, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("problem", "torch_us"), *timed])
    print(f"{timer.about()}: {len(timed)} of {len(lines)} products timed")


if __name__ == "__main__":
    main()
