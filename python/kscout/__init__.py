"""KernelScout: picks the fastest kernel of a GEMM or a convolution in microseconds, without running any.

    import kscout
    best = kscout.rank_kernels(kscout.Gemm(16, 4096, 4096), top=3)
    c = kscout.Registry().matmul(a, b)

Problems: Gemm, Conv, Problem, problem_of. Devices: Device. Configs: Config, KernelList, kernels. Kernels of your own: Family, triton_autotuner. Selection: Selector, Choice, Verdict, CacheStatistics, rank_kernels, Predictor.
Execution: Registry, Dispatcher, PackedB, PackedConvolution, Solution.
Features: Schema, FunctionModel. Measurements: Dataset, train, evaluate, tune, search_parameters (they start the programs of the package).
CK Tile's classes and tables: kscout.ck_tile. Errors: kscout.errors, one class per code.

Times are in microseconds (`*_us`), except in kscout.ck_tile.
"""

from .errors import CorruptData, DeviceFailure, Error, InvalidArgument, MissingPackage, NotFound, Unsupported

TYPE_CHECKING = False  # stands for typing.TYPE_CHECKING: importing typing would take longer than everything else here
if TYPE_CHECKING:
    from . import ck_tile
    from ._autotuner import triton_autotuner
    from ._core import (
        CacheStatistics,
        Choice,
        Config,
        Conv,
        Device,
        Dispatcher,
        Gemm,
        KernelList,
        PackedB,
        PackedConvolution,
        Problem,
        Registry,
        Schema,
        Selector,
        Solution,
        Verdict,
        __version__,
        device_names,
        kernels,
        problem_of,
    )
    from ._family import Family
    from ._function_model import FunctionModel
    from ._lab import Dataset, evaluate, train, tune
    from ._predictor import Predictor
    from ._ranking import rank_kernels
    from ._tuning import search_parameters

# Loaded when first used: importing these Python modules takes longer than importing the compiled part. The compiled part
# itself is loaded so, because a Family sweeps without it: it needs the programs only.
_LATER = {
    "Dataset": "_lab",
    "Family": "_family",
    "FunctionModel": "_function_model",
    "Predictor": "_predictor",
    "evaluate": "_lab",
    "rank_kernels": "_ranking",
    "search_parameters": "_tuning",
    "train": "_lab",
    "triton_autotuner": "_autotuner",
    "tune": "_lab",
}
_MODULES = ("_core", "ck_tile")

__all__ = [
    "CacheStatistics",
    "Choice",
    "Config",
    "Conv",
    "CorruptData",
    "Dataset",
    "Device",
    "DeviceFailure",
    "Dispatcher",
    "Error",
    "Family",
    "FunctionModel",
    "Gemm",
    "InvalidArgument",
    "KernelList",
    "MissingPackage",
    "NotFound",
    "PackedB",
    "PackedConvolution",
    "Problem",
    "Predictor",
    "Registry",
    "Schema",
    "Selector",
    "Solution",
    "Unsupported",
    "Verdict",
    "__version__",
    "ck_tile",
    "device_names",
    "evaluate",
    "kernels",
    "problem_of",
    "rank_kernels",
    "search_parameters",
    "train",
    "triton_autotuner",
    "tune",
]


def __getattr__(name):
    import importlib

    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name not in __all__:
        raise AttributeError(f"module 'kscout' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module("." + _LATER.get(name, "_core"), __name__), name)
    return value


def __dir__():
    return [*globals(), *__all__]
