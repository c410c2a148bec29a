"""Tables of fused mixture-of-experts kernels, for vLLM and SGLang: measures few configs of a layer and writes the file that they read.

    python -m kscout.moe --experts 128 --intermediate 768 --hidden 2048 --top-k 8 --model moe_model --out tables

Guide: docs/moe.md. Measuring needs PyTorch, Triton and a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from . import _program
from ._callables import Settings
from ._family import Family, PathLike
from .errors import Error, InvalidArgument

# Numbers of tokens for which tables have rows.
KEYS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_MOST_BETWEEN = 6
_ANCHORS = (1, 64, 1024)  # numbers of tokens that teach a model where there is none

Values = dict[str, int]


def _config(block_m: int, block_n: int, block_k: int, group_m: int, warps: int, stages: int) -> Values:
    return {"BLOCK_SIZE_M": block_m, "BLOCK_SIZE_N": block_n, "BLOCK_SIZE_K": block_k, "GROUP_SIZE_M": group_m, "num_warps": warps,
            "num_stages": stages}  # fmt: skip


# What an engine without a table runs in bf16 (vLLM's get_default_config of 2025; warps and stages are Triton's): for up to as many tokens as
# experts, and for more.
ENGINE_DEFAULTS = (_config(16, 32, 64, 1, 4, 3), _config(64, 64, 32, 8, 4, 3))
_DEFAULTS_FORMULA = "(c.block_size_m == 16 and c.block_size_n == 32 and c.block_size_k == 64 and c.group_size_m == 1 and c.num_warps == 4 " \
                    "and c.num_stages == 3) or c.block_size_k == 32"  # fmt: skip


def engine_default(tokens: int, experts: int) -> Values:
    """The config that an engine without a table runs."""
    return ENGINE_DEFAULTS[tokens > experts]


def configs() -> list[Values]:
    """The configs of the family: those of the engines' defaults, and others where no thread spills or idles."""
    found = list(ENGINE_DEFAULTS)
    for block_m in (16, 32, 64, 128):
        for block_n in (32, 64, 128, 256):
            for warps in (4, 8):
                per_thread = block_m * block_n / (32 * warps)
                if not 2 * warps <= per_thread <= 128:  # accumulators: more spill, fewer leave threads idle
                    continue
                for block_k in (64, 128, 256):
                    for stages in (2, 3, 4, 5):
                        found += [_config(block_m, block_n, block_k, group_m, warps, stages) for group_m in (1, 16)]
    return list({tuple(config.values()): config for config in found}.values())


class Layer(NamedTuple):
    """The experts of a layer as one GPU holds them. intermediate: the columns of an expert's gate, divided by the tensor-parallel GPUs."""

    experts: int
    intermediate: int
    hidden: int
    top_k: int

    def problem(self, tokens: int) -> str:
        """The grouped GEMM of gate and up for a number of tokens, routed evenly at random by a fixed seed."""
        draw = random.Random(tokens)
        rows = [0] * self.experts
        for _ in range(tokens):
            for expert in draw.sample(range(self.experts), self.top_k):
                rows[expert] += 1
        return f"grouped_gemm:{'+'.join(map(str, rows))}x{2 * self.intermediate}x{self.hidden}:bf16:rcr"

    def check(self) -> Layer:
        for name, value in self._asdict().items():
            if not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"{name}={value!r}: a number, at least 1")
        if self.top_k > self.experts:
            raise InvalidArgument(f"top_k={self.top_k}: a token cannot go to more than the {self.experts} experts")
        if self.intermediate % 16 or self.hidden % 16:
            raise InvalidArgument(f"intermediate={self.intermediate}, hidden={self.hidden}: multiples of 16, as engines have")
        return self


def family(layer: Layer, compile_jobs: int = 1) -> Family:
    """The configs of the fused kernel for a layer. Each is timed on both products of the layer, one after the other.

    Families of all layers have the same axes and rules, so that one model may learn from several.
    """
    layer.check()
    weights: list[Any] = []

    def prepare(problem: Any) -> Any:
        from ._moe_kernel import Operands, Weights

        if not weights:
            weights.append(Weights(layer.experts, layer.intermediate, layer.hidden))
        return Operands(weights[0], _rows(problem), layer.top_k)

    def compile_one(_problem: Any, config: Settings) -> None:
        from ._moe_kernel import compile_config

        compile_config(config, layer.intermediate, layer.hidden, layer.top_k)

    return Family(
        "fused_moe",
        configs=configs(),
        rules={"fits": ("2 * c.num_stages * (c.block_size_m + c.block_size_n) * c.block_size_k <= d.shared_bytes_per_core - 1024",
                        "the stages of both tiles lie in a block's shared memory: a multiprocessor's without 1 KiB")},  # fmt: skip
        op="grouped_gemm",
        device="cuda",
        prepare=prepare,
        run=lambda config, operands: operands.run(config),
        reference=lambda operands: operands.reference(),
        compile=compile_one,
        compile_jobs=compile_jobs,
        tolerance=2e-2,  # bf16 results, summed in other orders
        default=ENGINE_DEFAULTS[1],
        help="fused mixture-of-experts kernels in Triton, as serving engines configure them",
    )


def _rows(problem: Any) -> list[int]:
    """The rows of each expert."""
    if isinstance(rows := getattr(problem, "m", None), list):
        return rows
    return [int(size) for size in str(problem).split(":")[1].split("x")[0].split("+")]


def tune(
    layer: Layer,
    out: PathLike,
    model: PathLike | None = None,
    *,
    keys: Sequence[int] = KEYS,
    device_name: str | None = None,
    compile_jobs: int = 1,
    **options: Any,
) -> str:
    """Measures a layer and writes its table into the folder `out`; returns the file. The same call continues an interrupted one.

        kscout.moe.tune(kscout.moe.Layer(experts=128, intermediate=768, hidden=2048, top_k=8), "tables", model="moe_model")

    For each number of tokens of `keys` the six configs that the model expects to be fastest are measured, and both defaults of the engines. Where
    neighbouring rows differ in their tile, a row between them follows, for which five configs are measured. A row is the fastest config measured
    for it, so none is slower than an engine's default. That is about 200 measurements. `model`: of other layers; without one, 60
    configs of three numbers of tokens teach a model first. `device_name`: what the engine's PyTorch calls the GPU. `options` are those of
    Family.sweep.
    """
    folder = os.path.join(os.fspath(out), f"E={layer.check().experts},N={layer.intermediate},K={layer.hidden}")
    os.makedirs(folder, exist_ok=True)
    if sorted(set(keys)) != list(keys) or not keys or keys[0] < 1:
        raise InvalidArgument(f"keys={list(keys)!r}: numbers of tokens, ascending and from 1")
    made = family(layer, compile_jobs)

    def sweep(name: str, tokens: Iterable[int], **how: Any) -> str:
        made.sweep([layer.problem(count) for count in tokens], os.path.join(folder, name), **how, **options)
        return os.path.join(folder, name)

    if model is None:
        sweep("first", _ANCHORS, max_configs=20)
        model = os.path.join(folder, "model")
        if not os.path.exists(os.path.join(model, "model.ksf")):
            made.train(model, targets="rank", folds=3)
    sweeps = [sweep("keys", keys, model=model, top=6, also=_DEFAULTS_FORMULA)]
    between = _between(table_rows(sweeps, layer))
    if between:
        sweeps.append(sweep("between", between, model=model, top=3, also=_DEFAULTS_FORMULA))
    return write_table(sweeps, layer, out, device_name)


def _between(rows: dict[int, Values]) -> list[int]:
    """Numbers of tokens in the middle of neighbours whose tiles differ: each reads the nearer row, which may not suit it. The six largest."""
    tokens = sorted(rows)
    tile = {count: (rows[count]["BLOCK_SIZE_M"], rows[count]["BLOCK_SIZE_N"]) for count in tokens}
    return [(low + high) // 2 for low, high in zip(tokens, tokens[1:]) if tile[low] != tile[high] and high - low >= 4][-_MOST_BETWEEN:]


def _dataset(sweeps: Sequence[PathLike]) -> str:
    """One Parquet file of these sweeps, beside the last of them."""
    parts = []
    for source in map(os.fspath, sweeps):
        file = source.rstrip("/") + ".parquet"
        _program.call("dataset", "import", source, "--out", file, quiet=True)
        parts.append(file)
    if len(parts) == 1:
        return parts[0]
    whole = os.path.join(os.path.dirname(parts[-1]), "layer.parquet")
    _program.call("dataset", "merge", *parts, "--keep", "last", "--out", whole, quiet=True)
    return whole


def _export(sweeps: Sequence[PathLike], layer: Layer, device_name: str, folder: str) -> str:
    """Writes the table into a folder that holds nothing else; returns the file."""
    options = _program.flags(format="moe-json", top_k=layer.top_k, device_name=device_name, out_folder=folder)
    _program.call("export", "--measurements", _dataset(sweeps), *options, quiet=True)
    return os.path.join(folder, os.listdir(folder)[0])


def table_rows(sweeps: Sequence[PathLike], layer: Layer) -> dict[int, Values]:
    """The fastest measured config for each number of tokens."""
    with tempfile.TemporaryDirectory() as folder, open(_export(sweeps, layer, "any", folder), encoding="utf-8") as stream:
        return {int(tokens): row for tokens, row in json.load(stream).items()}


def write_table(sweeps: Sequence[PathLike], layer: Layer, out: PathLike, device_name: str | None = None) -> str:
    """Writes the table of measured sweeps under the name for which engines look; returns the file."""
    if device_name is None:
        import torch

        device_name = torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        file = _export(sweeps, layer, device_name, folder)
        return shutil.copy(file, os.fspath(out))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kscout.moe", description="Measures a mixture-of-experts layer and writes the table that vLLM and SGLang read.")
    parser.add_argument("--experts", type=int, required=True, help="experts that one GPU holds")
    parser.add_argument("--intermediate", type=int, required=True, help="columns of an expert's gate on one GPU: the table's N")
    parser.add_argument("--hidden", type=int, required=True, help="size of a token")
    parser.add_argument("--top-k", type=int, required=True, help="experts of each token")
    parser.add_argument("--out", required=True, help="folder for the table, and for the measurements")
    parser.add_argument("--model", help="a model of other layers (default: a first sweep teaches one)")
    parser.add_argument("--device-name", help="the GPU's name in the engine (default: PyTorch's)")
    parser.add_argument("--compile-jobs", type=int, default=min(12, os.cpu_count() or 1), help="processes that compile")
    parser.add_argument("--budget", type=float, help="seconds for each sweep; the same command continues")
    given = parser.parse_args(words)
    layer = Layer(given.experts, given.intermediate, given.hidden, given.top_k)
    options = {} if given.budget is None else {"budget": given.budget}
    try:
        file = tune(layer, given.out, given.model, device_name=given.device_name, compile_jobs=given.compile_jobs, **options)
    except Error as error:
        print(f"kscout.moe: {error}", file=sys.stderr)
        return 2
    with open(file, encoding="utf-8") as stream:
        print(f"{file}: {len(json.load(stream))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
