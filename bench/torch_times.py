#!/usr/bin/env python3
"""Times of `torch.mm` and `torch._grouped_mm` in stock PyTorch on a GPU, for benchmarks that compare with them (gemm_odd, gemm_cuda and
grouped_cuda, option --torch).

    kscout problems odd_sizes --count 0 --dtype bf16 > odd.txt
    python3 bench/torch_times.py --problems odd.txt --csv torch.csv

Reads lines such as `gemm:16x4096x4096:bf16:rcr` and `grouped_gemm:128+64+0+7x1408x2048:bf16:rcr`. As in these benchmarks, caches are cold and the GPU's events count: the median of
nine samples. Writes columns problem and torch_us; a product that PyTorch cannot compute is named and left out.
"""
import argparse
import csv
import re
import statistics
import sys

LINE = re.compile(r"(grouped_)?gemm:([\d+]+)x(\d+)x(\d+):(bf16|fp16):([rc])([rc])r(:weight=[^:]+)?$")
SAMPLES, FLUSHED_BYTES = 9, 256 << 20
QUEUEING_CYCLES = 100_000  # of the GPU's clock, in which the CPU queues a call


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

    def matrix(self, rows, columns, dtype, row_major, count=None):
        """A matrix, or `count` of them."""
        shape = (rows, columns) if row_major else (columns, rows)
        made = self.torch.empty(shape if count is None else (count, *shape), dtype=dtype, device="cuda").uniform_(-0.5, 0.5)
        return made if row_major else made.transpose(-1, -2)

    def product(self, sizes, n, k, dtype, a_row_major, b_row_major):
        """A function that computes a GEMM."""
        torch = self.torch
        a, b = self.matrix(sizes[0], k, dtype, a_row_major), self.matrix(k, n, dtype, b_row_major)
        out = torch.empty((sizes[0], n), dtype=dtype, device="cuda")
        return lambda: torch.mm(a, b, out=out)

    def grouped(self, sizes, n, k, dtype, a_row_major, b_row_major):
        """The same of a grouped GEMM; it allocates its result, as PyTorch's function has no other form."""
        torch = self.torch
        if not hasattr(torch, "_grouped_mm"):
            raise RuntimeError("this PyTorch has no torch._grouped_mm")
        a, b = self.matrix(sum(sizes), k, dtype, a_row_major), self.matrix(k, n, dtype, b_row_major, len(sizes))
        ends = torch.cumsum(torch.tensor(sizes, device="cuda"), 0).to(torch.int32)
        return lambda: torch._grouped_mm(a, b, offs=ends)  # pylint: disable=protected-access

    def median_us(self, call):
        """Microseconds; throws torch's errors."""
        torch = self.torch
        call()
        torch.cuda.synchronize()
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(SAMPLES)]
        for begin, end in pairs:
            self.flushed.zero_()
            torch.cuda._sleep(QUEUEING_CYCLES)  # pylint: disable=protected-access
            begin.record()
            call()
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
        if not match or (not match[1] and "+" in match[2]):
            sys.exit(f"torch_times: {asked.problems}: '{line}': only plain GEMMs and grouped GEMMs in bf16 or fp16 with a row-major C "
                     "are timed, such as gemm:16x4096x4096:bf16:rcr")
        sizes = [int(size) for size in match[2].split("+")]
        make = timer.grouped if match[1] else timer.product
        try:
            us = timer.median_us(make(sizes, int(match[3]), int(match[4]), types[match[5]], match[6] == "r", match[7] == "r"))
            timed.append((line, f"{us:.3f}"))
        except RuntimeError as error:  # out of memory, too
            print(f"left out: {line}: {str(error).splitlines()[0]}")
        timer.torch.cuda.empty_cache()
    with open(asked.csv, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("problem", "torch_us"), *timed])
    print(f"{timer.about()}: {len(timed)} of {len(lines)} products timed")


if __name__ == "__main__":
    main()
