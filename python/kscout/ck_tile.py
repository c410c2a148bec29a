"""Provides CK Tile's Predictor, with its names and units, and converts rows of CK Tile's tables.

    from kscout import ck_tile
    predictor = ck_tile.Predictor("models/grouped_conv_forward_bf16_gfx950", absent_problem={**ck_tile.CONV_2D, "variant": "forward"})
    predictor.predict_latency(row, name)     # milliseconds

For scripts that were written for CK Tile's `predict.py`. Everything else in kscout counts time in microseconds.

problem_from and config_from convert rows of CK Tile's tables to kscout's Gemm, Conv and Config. GEMM, CONV_2D, CONV_3D (problems)
and CONV_KERNEL (kernels) hold the values that those tables imply for absent columns; pass one as `absent=` to apply it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ._ck_tables import CONV_2D, CONV_3D, CONV_KERNEL, GEMM, Kernel, Problem, Row, config_from, configs_from, names_from, problem_from
from ._core import Config, Conv, Device, Gemm
from ._predictor import Predictor as _Predictor
from .errors import InvalidArgument

__all__ = ["CONV_2D", "CONV_3D", "CONV_KERNEL", "GEMM", "Predictor", "config_from", "problem_from"]


class Predictor:
    """CK Tile's Predictor: its methods and its units, TFLOPS, MILLISECONDS and GB/s.

        predictor = ck_tile.Predictor("models/gemm_universal_fp8_gfx950", absent_problem=ck_tile.GEMM)
        predictor.predict_latency({"m": 16, "n": 4096, "k": 4096, "dtype": "fp8", "layout": "rcr"}, name)   # milliseconds

    `folder`, `schema` and `device` mean the same as in kscout.Predictor, whose methods return microseconds. `absent_problem` and
    `absent_kernel` give the values of keys that the dicts leave out; without them, the dicts need every key. problem_from and
    config_from take the same values as `absent`.

    Unlike CK Tile's, a kernel's dict never overrides the problem: keys of problems in it are an InvalidArgument.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        schema: str | None = None,
        device: Device | str | None = None,
        *,
        absent_problem: Row | None = None,
        absent_kernel: Row | None = None,
    ):
        self._of = _Predictor(folder, schema, device)
        self._absent_problem, self._absent_kernel = absent_problem, absent_kernel

    def _problem(self, problem: Problem) -> Gemm | Conv:
        return problem_from(problem, absent=self._absent_problem)

    def _predict(self, problem: Problem, kernel: Kernel, target: str) -> float:
        asked = self._problem(problem)
        return self._of.predict(asked, configs_from([kernel], asked, absent=self._absent_kernel), target)[0]

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
        asked = self._problem(problem)
        kernels = kernels if isinstance(kernels, (str, Mapping, Config)) else list(kernels)
        configs = configs_from(kernels, asked, absent=self._absent_kernel)
        return sorted(zip(names_from(kernels, configs), self._of.predict(asked, configs)), key=lambda pair: -pair[1])

    def select_best(self, problem: Problem, kernels: Iterable[Kernel]) -> str:
        """The first name of rank_kernels; InvalidArgument (a ValueError) without kernels."""
        ranked = self.rank_kernels(problem, kernels)
        if not ranked:
            raise InvalidArgument("no kernels to choose from: give at least one")
        return ranked[0][0]
