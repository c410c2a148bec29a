"""Provides CK Tile's Python classes, with their names and units, and converts rows of its tables.

    from kscout import ck_tile
    predictor = ck_tile.Predictor("models/grouped_conv_forward_bf16_gfx950", feature_engine=ck_tile.GroupedConvFeatureEngine())
    ranked = predictor.rank_kernels(problem, kernels)        # (name, TFLOPS), best first

For scripts that were written for CK Tile's `predict.py`, `feature_engine*.py` and `grouped_conv_utils.py`. Everything else in
kscout counts time in microseconds.

problem_from and config_from convert rows of CK Tile's tables to kscout's Gemm, Conv and Config. GEMM, CONV_2D, CONV_3D (problems)
and CONV_KERNEL (kernels) hold the values that those tables imply for absent columns; pass one as `absent=` to apply it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ._ck_conv import GpuGroupedConvRunner, GroupedConvKernelConfig, GroupedConvProblem, GroupedConvRegistry, GroupedConvResult
from ._ck_engines import FeatureEngine, GemmUniversalFeatureEngine, GemmUniversalVecFeatureEngine, GroupedConvFeatureEngine
from ._ck_tables import CONV_2D, CONV_3D, CONV_KERNEL, GEMM, Kernel, Problem, Row, config_from, configs_from, names_from, problem_from
from ._core import Config, Conv, Device, Gemm
from ._predictor import Predictor as _Predictor
from .errors import InvalidArgument

__all__ = [
    "CONV_2D",
    "CONV_3D",
    "CONV_KERNEL",
    "GEMM",
    "FeatureEngine",
    "GemmUniversalFeatureEngine",
    "GemmUniversalVecFeatureEngine",
    "GpuGroupedConvRunner",
    "GroupedConvFeatureEngine",
    "GroupedConvKernelConfig",
    "GroupedConvProblem",
    "GroupedConvRegistry",
    "GroupedConvResult",
    "Predictor",
    "config_from",
    "problem_from",
]


class Predictor:
    """CK Tile's Predictor: its methods and its units, TFLOPS, MILLISECONDS and GB/s.

        predictor = ck_tile.Predictor("models/gemm_universal_fp8_gfx950", ck_tile.GemmUniversalFeatureEngine())
        predictor.predict_latency({"m": 16, "n": 4096, "k": 4096, "dtype": "fp8", "layout": "rcr"}, name)   # milliseconds

    With a `feature_engine`, keys that a problem or a kernel leaves out have the values that CK Tile's tables imply (the engine's
    help lists them). Without one, the dicts need every key. `absent_problem` and `absent_kernel` give further values, as
    `absent` of problem_from and config_from.

    `folder`, `schema` and `device` mean the same as in kscout.Predictor, whose methods return microseconds.

    Unlike CK Tile's, a kernel's dict never overrides the problem: whole rows of a table are taken as kernels, and the columns of
    their own problem are ignored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        feature_engine: FeatureEngine | None = None,
        *,
        schema: str | os.PathLike[str] | None = None,
        device: Device | str | None = None,
        absent_problem: Row | None = None,
        absent_kernel: Row | None = None,
    ):
        if feature_engine is not None and not isinstance(feature_engine, FeatureEngine):
            raise TypeError(f"feature_engine is an engine of kscout.ck_tile, not {type(feature_engine).__name__}; a schema: schema=")
        self._engine = feature_engine
        self._of = _Predictor(folder, schema or getattr(feature_engine, "schema", None), device)
        self._absent_problem, self._absent_kernel = absent_problem, absent_kernel

    def _problem(self, problem: Problem | GroupedConvProblem, kernels: Iterable[Kernel]) -> Gemm | Conv:
        if isinstance(problem, GroupedConvProblem):
            return problem.conv()
        if not isinstance(problem, Mapping):
            return problem_from(problem)
        implied = self._engine.absent_problem(problem, kernels) if self._engine else {}
        return problem_from(problem, absent={**implied, **(self._absent_problem or {})})

    def _configs(self, kernels: Iterable[Kernel], problem: Gemm | Conv) -> list[Config]:
        implied = (self._engine.absent_kernel() if self._engine else None) or {}
        return configs_from(kernels, problem, absent={**implied, **(self._absent_kernel or {})})

    def _predict(self, problem: Problem, kernel: Kernel, target: str) -> float:
        asked = self._problem(problem, [kernel])
        return self._of.predict(asked, self._configs([kernel], asked), target)[0]

    def predict_tflops(self, problem: Problem, kernel: Kernel) -> float:
        """TFLOPS."""
        return self._predict(problem, kernel, "tflops")

    def predict_latency(self, problem: Problem, kernel: Kernel) -> float:
        """Milliseconds, as CK Tile counts them."""
        return self._predict(problem, kernel, "latency_us") * 1e-3

    def predict_bandwidth(self, problem: Problem, kernel: Kernel) -> float:
        """GB/s."""
        return self._predict(problem, kernel, "bandwidth_gb_s")

    def predict_all(self, problem: Problem, kernel: Kernel) -> dict[str, float]:
        """All predictions of the folder, by target: `tflops`, `latency_ms` (milliseconds), `bandwidth_gb_s`."""
        of = {"tflops": self.predict_tflops, "latency_us": self.predict_latency, "bandwidth_gb_s": self.predict_bandwidth}
        return {target.replace("_us", "_ms"): of[target](problem, kernel) for target in self._of.targets if target in of}

    def rank_kernels(self, problem: Problem, kernels: Iterable[Kernel]) -> list[tuple[str, float]]:
        """(name, predicted TFLOPS) of each kernel, best first; equal ones keep their order. Names are as the caller wrote them."""
        kernels = kernels if isinstance(kernels, (str, Mapping, Config)) else list(kernels)
        asked = self._problem(problem, kernels)
        configs = self._configs(kernels, asked)
        return sorted(zip(names_from(kernels, configs), self._of.predict(asked, configs)), key=lambda pair: -pair[1])

    def select_best(self, problem: Problem, kernels: Iterable[Kernel]) -> str:
        """The first name of rank_kernels; InvalidArgument (a ValueError) without kernels."""
        ranked = self.rank_kernels(problem, kernels)
        if not ranked:
            raise InvalidArgument("no kernels to choose from: give at least one")
        return ranked[0][0]
