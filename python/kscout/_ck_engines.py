"""Provides CK Tile's feature engines by name: the published schema that each computes, and what it implies for absent columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._ck_tables import CONV_2D, CONV_3D, CONV_KERNEL, GEMM, PROBLEM_KEYS, VARIANTS, Kernel, Problem, Row, config_from, is_label, problem_from
from ._core import Config, Device, Schema

if TYPE_CHECKING:
    import numpy
    import pandas


class FeatureEngine:
    """What the feature engines share. New features need no class of their own: kscout.Schema.

    `schema` is one of the engine's published schemas (default: the newest); `device` has the facts that the features read. The
    constants of a device are no arguments: a folder's own `hardware` counts.
    """

    newest = ""

    def __init__(self, schema: str | None = None, device: Device | str = "gfx950"):
        if not self.newest:
            raise TypeError("FeatureEngine names no features: describe them as a kscout.Schema")
        self.schema = schema  # None: of a folder, the one that has exactly its features
        self.device = Device(device) if isinstance(device, str) else device
        self._features = Schema(schema or self.newest)

    def get_feature_names(self) -> list[str]:
        return self._features.features

    def get_categorical_features(self) -> list[str]:
        return self._features.categorical

    def extract(self, problem: Problem, kernel: Kernel) -> numpy.ndarray:
        """The features of one kernel for one problem, as float64 in the order of get_feature_names()."""
        import numpy

        implied = self.absent_problem(problem, [kernel]) if isinstance(problem, Mapping) else None
        asked = problem_from(problem, absent=implied)
        config = config_from(kernel, asked, absent=self.absent_kernel())
        return numpy.array(self._features.rows(asked, [config], self.device)[0])

    def extract_batch(self, table: pandas.DataFrame) -> numpy.ndarray:
        """One row of features per row of a table whose rows hold problem and kernel."""
        import numpy

        rows = table.to_dict("records")
        problems = [{key: value for key, value in row.items() if key in PROBLEM_KEYS} for row in rows]
        return numpy.array([self.extract(*pair) for pair in zip(problems, rows)]).reshape(len(rows), len(self._features.features))

    def absent_problem(self, row: Row, kernels: Iterable[Kernel]) -> dict[str, Any]:
        """Values of the keys that a problem's dict leaves out, as CK Tile's tables imply them."""
        raise NotImplementedError

    def absent_kernel(self) -> Mapping[str, Any] | None:
        """Values of the keys that a kernel leaves out, as CK Tile's tables imply them."""
        return None


class GemmUniversalFeatureEngine(FeatureEngine):
    """Of GEMMs: 55, 62 or 72 features."""

    newest = "ck_gemm_72"

    def absent_problem(self, row: Row, kernels: Iterable[Kernel]) -> dict[str, Any]:
        return dict(GEMM)


class GemmUniversalVecFeatureEngine(GemmUniversalFeatureEngine):
    """Of GEMMs with fixed vector widths: 78 features."""

    newest = "ck_gemm_78"


def _direction(kernels: Iterable[Kernel]) -> str:
    """The direction of the first kernel that says one; forward, as in CK Tile's classes, where none does."""
    for kernel in () if isinstance(kernels, (str, Mapping, Config)) else kernels:
        if isinstance(kernel, Mapping):
            name = kernel.get("kernel_name", kernel.get("name"))
            if name is None or is_label(name, kernel):
                if "variant" in kernel:
                    return kernel["variant"]
                continue
            kernel = name
        op = (Config(kernel) if isinstance(kernel, str) else kernel).signature["op"]
        return VARIANTS.get(op, "forward")
    return "forward"


class GroupedConvFeatureEngine(FeatureEngine):
    """Of grouped convolutions: 75 to 113 features.

    A problem that names no direction has that of the kernels, no layout that of its rank (nhwgc or ndhwgc), and no dilation.
    """

    newest = "ck_conv_113"

    def absent_problem(self, row: Row, kernels: Iterable[Kernel]) -> dict[str, Any]:
        deep = row.get("Di", 1) > 1 or row.get("Z", 1) > 1 or row.get("pad_d", 0) > 0
        has_direction = "variant" in row or "direction" in row
        return {**(CONV_3D if deep else CONV_2D), **({} if has_direction else {"variant": _direction(kernels)})}

    def absent_kernel(self) -> Mapping[str, Any] | None:
        return CONV_KERNEL
