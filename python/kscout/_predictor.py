"""Predicts the speed of kernels that the caller names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ._ck_tables import Kernel, Problem, configs_from, names_from, problem_from
from ._core import Choice, Config, Device, FolderPredictor
from .errors import InvalidArgument, NotFound

_WITH_UNIT = {"latency": "latency_us", "bandwidth": "bandwidth_gb_s"}


class Predictor:
    """Predicts the speed of kernels that the caller names, from a model folder of KernelScout or of CK Tile's trainer.

        predictor = kscout.Predictor("models/conv_fwd_bf16_gfx950")
        problem = kscout.Conv(8, 64, 128, 28, 28, 3, 3, "bf16", pad=1)
        for choice in predictor.rank_kernels(problem, names):
            print(choice.name, choice.time_us)

    `schema` has the features of a folder without model.ksf: a name of the catalogue or a TOML file (without `schema`: the published
    one that has exactly the folder's features; InvalidArgument when there is none). `device`: device whose facts the features use; by default the device that the
    folder names, with the constants of its `hardware`. A model.ksf predicts only for the device that it was trained on; another
    `device` is Unsupported.

    `targets` lists the quantities that the folder predicts: `tflops` (10^12 operations/s), `latency_us` (microseconds),
    `bandwidth_gb_s` (10^9 bytes/s). Models of CK Tile's trainer predict milliseconds; this class converts them to microseconds.
    `kscout.ck_tile.Predictor` returns milliseconds and has the method names of CK Tile's Predictor.

    Problems may be complete dicts of CK Tile's tables (`kscout.ck_tile.problem_from`), kernels may be names, Config, or such
    dicts (`config_from`). A kernel never changes the problem: a kernel for other types is an InvalidArgument.
    """

    def __init__(self, folder: str | os.PathLike[str], schema: str | os.PathLike[str] | None = None, device: Device | str | None = None):
        self._of = FolderPredictor(os.fspath(folder), os.fspath(schema or ""), device)
        self._targets = {_WITH_UNIT.get(target, target): target for target in self._of.targets}
        self.targets = list(self._targets)
        self.schema = self._of.schema

    def predict(self, problem: Problem, kernels: Iterable[Kernel], target: str = "tflops") -> list[float]:
        """One value per kernel, in the unit of the target's name. NotFound for a target that is not in `targets`."""
        if target not in self._targets:
            raise NotFound(f"no model of target '{target}'; the folder has {', '.join(self.targets)}")
        asked = problem_from(problem)
        return self._of.predict(asked, configs_from(kernels, asked), self._targets[target])

    def predict_tflops(self, problem: Problem, kernel: Kernel) -> float:
        """10^12 operations per second."""
        return self.predict(problem, [kernel])[0]

    def predict_latency_us(self, problem: Problem, kernel: Kernel) -> float:
        """Microseconds."""
        return self.predict(problem, [kernel], "latency_us")[0]

    def predict_bandwidth_gb_s(self, problem: Problem, kernel: Kernel) -> float:
        """10^9 bytes per second."""
        return self.predict(problem, [kernel], "bandwidth_gb_s")[0]

    def predict_all(self, problem: Problem, kernel: Kernel) -> dict[str, float]:
        """All predictions of the folder, by target: `tflops`, `latency_us`, `bandwidth_gb_s`."""
        return {target: self.predict(problem, [kernel], target)[0] for target in self.targets}

    def rank_kernels(self, problem: Problem, kernels: Iterable[Kernel]) -> list[Choice]:
        """All kernels by predicted TFLOPS, best first; kernels with equal values keep their order. Empty without kernels.

        `name` of a choice is the name as the caller wrote it. `time_us` and `gb_s` follow from its `tflops`.
        """
        asked = problem_from(problem)
        kernels = kernels if isinstance(kernels, (str, Mapping, Config)) else list(kernels)
        configs = configs_from(kernels, asked)
        return self._of.rank(asked, configs, names_from(kernels, configs))

    def select_best(self, problem: Problem, kernels: Iterable[Kernel]) -> Choice:
        """The first of rank_kernels; InvalidArgument without kernels."""
        ranked = self.rank_kernels(problem, kernels)
        if not ranked:
            raise InvalidArgument("no kernels to choose from: give at least one")
        return ranked[0]
