"""Models asked about kernels that somebody names, with problems and kernels as CK Tile's tools write them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Union

from ._core import Config, Conv, Device, FolderPredictor, Gemm
from .errors import InvalidArgument, NotFound

Problem = Union[Gemm, Conv, str, Mapping[str, Any]]
Kernel = Union[Config, str, Mapping[str, Any]]

_CONV_SIZES = {"N": "n", "C": "c", "K": "k", "G": "g", "Di": "d", "Hi": "h", "Wi": "w", "Z": "z", "Y": "y", "X": "x"}
_CONV_REST = ("stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h", "dilation_w", "pad_d", "pad_h", "pad_w")
_DIRECTIONS = {"forward": "conv_fwd", "fwd": "conv_fwd", "bwd_data": "conv_bwd_data", "bwd_weight": "conv_bwd_weight"}
_GEMM_SIZES = ("m", "n", "k", "split_k", "dtype", "layout")


def _number_fields(problem: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    unknown = [key for key in problem if key not in known]
    if unknown:
        raise InvalidArgument(f"a {what} has no '{unknown[0]}'; it has {', '.join(known)}")


def problem_from(problem: Problem) -> Gemm | Conv:
    """A problem of any form: Gemm, Conv, its one-line form, or a dict with the names of CK Tile's tables.

        problem_from({"m": 16, "n": 4096, "k": 4096, "dtype": "fp8", "layout": "rcr"})
        problem_from({"N": 8, "C": 64, "K": 128, "Hi": 28, "Wi": 28, "Y": 3, "X": 3, "pad_h": 1, "pad_w": 1})

    Without a dtype: fp8 for GEMMs, bf16 for convolutions, as there. `variant` or `direction`: forward, bwd_data, bwd_weight.
    """
    if isinstance(problem, str):
        return Conv(problem) if problem.startswith("conv_") else Gemm(problem)
    if not isinstance(problem, Mapping):
        return problem
    if "C" not in problem and "Hi" not in problem:
        fields = {"mnk"["MNK".index(key)] if key in ("M", "N", "K") else key: value for key, value in problem.items()}
        _number_fields(fields, _GEMM_SIZES, "GEMM")
        split = int(fields.get("split_k", 1))
        more = {"split_k": split} if split > 1 else {}
        return Gemm(int(fields["m"]), int(fields["n"]), int(fields["k"]), fields.get("dtype", "fp8"), fields.get("layout", "rcr"), **more)
    _number_fields(problem, [*_CONV_SIZES, *_CONV_REST, "dtype", "variant", "direction", "layout"], "convolution")
    fields = {_CONV_SIZES.get(key, key): int(value) for key, value in problem.items() if key in _CONV_SIZES or key in _CONV_REST}
    deep = fields.get("d", 1) > 1 or fields.get("z", 1) > 1 or fields.get("pad_d", 0) > 0
    direction = problem.get("variant", problem.get("direction", "forward"))
    if direction not in _DIRECTIONS:
        raise InvalidArgument(f"variant '{direction}': take one of {', '.join(_DIRECTIONS)}")
    sizes = {key: fields.pop(key) for key in ("n", "c", "k", "h", "w", "y", "x") if key in fields}
    layout = problem.get("layout", "ndhwgc" if deep else "nhwgc")
    return Conv(**sizes, dtype=problem.get("dtype", "bf16"), layout=layout, op=_DIRECTIONS[direction], **fields)


def config_from(kernel: Kernel, problem: Gemm | Conv) -> Config:
    """A kernel of any form: Config, name, or a dict with `kernel_name` or the fields of CK Tile's tables."""
    if isinstance(kernel, Config):
        return kernel
    if isinstance(kernel, str):
        return Config(kernel)
    name = kernel.get("kernel_name") or kernel.get("name")
    if name:
        return Config(name)
    tile = "{tile_m}x{tile_n}x{tile_k}".format_map(kernel)
    scheduler = kernel.get("scheduler", kernel.get("wave_mode", "intrawave"))
    if isinstance(problem, Conv):
        variant = {value: key for key, value in _DIRECTIONS.items()}[problem.op]
        flags = "".join(f"_{word}" for word, key in (("dsb", "has_dsb"), ("si", "has_si")) if kernel.get(key))
        rank = 3 if "d" in problem.layout else 2
        return Config(f"grouped_conv_{variant}_{problem.dtype_in}_{rank}d_{tile}_{kernel['pipeline']}_{scheduler}{flags}")
    flags = "_".join(str(bool(kernel.get(key, False))) for key in ("pad_m", "pad_n", "pad_k", "persistent"))
    warps = "{warp_m}x{warp_n}x{warp_k}_{warp_tile_m}x{warp_tile_n}x{warp_tile_k}".format_map(kernel)
    epilogue = kernel.get("epilogue", "cshuffle")
    return Config(f"gemm_universal_{problem.dtype_a}_{problem.layout}_{kernel['pipeline']}_{epilogue}_{scheduler}_{flags}_{tile}_{warps}")


class Predictor:
    """A model folder, ours or one of CK Tile's trainer, asked about kernels that somebody names.

        predictor = kscout.Predictor("models/conv_fwd_bf16_gfx950")
        predictor.rank_kernels({"N": 8, "C": 64, "K": 128, "Hi": 28, "Wi": 28, "Y": 3, "X": 3}, names)

    `schema` names the features of a folder without model.ksf (without it the smallest that has them all), `device` the one
    whose facts they read. A kernel never changes the problem: one of other types is an InvalidArgument.
    """

    def __init__(self, folder: str | os.PathLike[str], schema: str | None = None, device: Device | str | None = None):
        self._of = FolderPredictor(os.fspath(folder), schema or "", device)
        self.targets = self._of.targets
        self.schema = self._of.schema

    def predict(self, problem: Problem, kernels: Iterable[Kernel], target: str = "tflops") -> list[float]:
        """One value per kernel: TFLOPS, milliseconds (`latency`) or GB/s (`bandwidth`)."""
        asked = problem_from(problem)
        return self._of.predict(asked, [config_from(kernel, asked) for kernel in kernels], target)

    def predict_tflops(self, problem: Problem, kernel: Kernel) -> float:
        return self.predict(problem, [kernel])[0]

    def predict_latency(self, problem: Problem, kernel: Kernel) -> float:
        """Milliseconds."""
        return self.predict(problem, [kernel], "latency")[0]

    def predict_bandwidth(self, problem: Problem, kernel: Kernel) -> float:
        """GB/s."""
        return self.predict(problem, [kernel], "bandwidth")[0]

    def predict_all(self, problem: Problem, kernel: Kernel) -> dict[str, float]:
        """What the folder's models say, by `tflops`, `latency_ms`, `bandwidth`."""
        names = {"latency": "latency_ms"}
        return {names.get(target, target): self.predict(problem, [kernel], target)[0] for target in self.targets}

    def rank_kernels(self, problem: Problem, kernels: Iterable[Kernel]) -> list[tuple[str, float]]:
        """Names and predicted TFLOPS, best first; equal ones keep their order. Nothing for no kernels."""
        asked = problem_from(problem)
        configs = [config_from(kernel, asked) for kernel in kernels]
        values = self._of.predict(asked, configs, "tflops")
        return sorted(((config.name, value) for config, value in zip(configs, values)), key=lambda pair: -pair[1])

    def select_best(self, problem: Problem, kernels: Iterable[Kernel]) -> str:
        """The first name of rank_kernels."""
        ranked = self.rank_kernels(problem, kernels)
        if not ranked:
            raise InvalidArgument("no kernels to choose from")
        return ranked[0][0]


def ranked_of(problem: Problem, kernels: Iterable[Kernel], model: str | None, find: Any) -> list[tuple[str, float]]:
    """kscout.rank_kernels with kernels that are given."""
    asked = problem_from(problem)
    path = model or find(asked)
    if path is None:
        raise NotFound(f"no model for {asked}: name one with model=")
    return Predictor(path).rank_kernels(asked, kernels)
