"""Provides the classes of CK Tile's `grouped_conv_utils` over kscout's problems, configs and registry."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from ._ck_tables import DIRECTIONS, VARIANTS, Kernel, configs_from
from ._core import Config, Conv, Device, Registry, Selector, Solution
from ._ranking import rank_kernels
from .errors import DeviceFailure, InvalidArgument, NotFound, Unsupported

_USUAL_DTYPE = "bf16"  # of a problem that names none, where no arrays tell


def _variant(word: str) -> str:
    if word not in DIRECTIONS:
        raise InvalidArgument(f"a convolution: '{word}' must be one of {', '.join(DIRECTIONS)}")
    return VARIANTS[DIRECTIONS[word]]


@dataclass
class GroupedConvProblem:
    """A convolution with the names of CK Tile: C and K are channels of all groups; padding is the same on both sides.

        problem = ck_tile.GroupedConvProblem(N=2, C=128, K=256, Hi=28, Wi=28, Y=3, X=3, pad_h=1, pad_w=1, dtype="bf16")
        problem.conv()               # the kscout.Conv

    `dtype` may be left out: run() then takes the type of the arrays, other calls take bf16. Raises InvalidArgument (a
    ValueError) where C or K is not divisible by G, and for sizes that are no convolution.
    """

    N: int = 1
    C: int = 64
    K: int = 128
    G: int = 1
    Hi: int = 28
    Wi: int = 28
    Di: int = 1
    Y: int = 3
    X: int = 3
    Z: int = 1
    stride_h: int = 1
    stride_w: int = 1
    stride_d: int = 1
    pad_h: int = 0
    pad_w: int = 0
    pad_d: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    dilation_d: int = 1
    direction: str = "forward"
    split_k: int = 1
    dtype: str | None = None

    def __post_init__(self) -> None:
        self.direction = _variant(self.direction)
        self.conv()

    def conv(self, dtype: str | None = None) -> Conv:
        """The kscout.Conv; `dtype` where the problem names none. split_k 1 leaves the split to the selector."""
        same = {f.name: getattr(self, f.name) for f in fields(self) if f.name.startswith(("stride_", "pad_", "dilation_"))}
        if not self.is_3d:
            same = {name: value for name, value in same.items() if not name.endswith("_d")}
        depth = {"d": self.Di, "z": self.Z} if self.is_3d else {}
        return Conv(
            **dict(n=self.N, c=self.C, k=self.K, h=self.Hi, w=self.Wi, y=self.Y, x=self.X, g=self.G),
            **same,
            **depth,
            dtype=self.dtype or dtype or _USUAL_DTYPE,
            layout="ndhwgc" if self.is_3d else "nhwgc",
            op=DIRECTIONS[self.direction],
            split_k=self.split_k if self.split_k > 1 else 0,
        )

    def _out(self, axis: str, size: int, taps: int) -> int:
        stride, pad, dilation = (getattr(self, f"{name}_{axis}") for name in ("stride", "pad", "dilation"))
        return (size + 2 * pad - (taps - 1) * dilation - 1) // stride + 1

    @property
    def Ho(self) -> int:
        return self._out("h", self.Hi, self.Y)

    @property
    def Wo(self) -> int:
        return self._out("w", self.Wi, self.X)

    @property
    def Do(self) -> int:
        return self._out("d", self.Di, self.Z)

    @property
    def is_3d(self) -> bool:
        return self.Di > 1 or self.Z > 1 or self.pad_d > 0

    @property
    def ndim_spatial(self) -> int:
        return 3 if self.is_3d else 2

    @property
    def flops(self) -> float:
        return self.conv().flops

    @property
    def gflops(self) -> float:
        return self.flops / 1e9

    def input_shape(self) -> tuple[int, ...]:
        return (self.N, *((self.Di,) if self.is_3d else ()), self.Hi, self.Wi, self.G, self.C // self.G)

    def weight_shape(self) -> tuple[int, ...]:
        return (self.G, self.K // self.G, *((self.Z,) if self.is_3d else ()), self.Y, self.X, self.C // self.G)

    def output_shape(self) -> tuple[int, ...]:
        return (self.N, *((self.Do,) if self.is_3d else ()), self.Ho, self.Wo, self.G, self.K // self.G)

    def result_shape(self) -> tuple[int, ...]:
        """Of the array that the direction computes."""
        return {"forward": self.output_shape, "bwd_data": self.input_shape, "bwd_weight": self.weight_shape}[self.direction]()


@dataclass
class GroupedConvKernelConfig:
    """The parameters of a kernel with CK Tile's names and defaults.

        ck_tile.GroupedConvKernelConfig(dtype="bf16", tile_m=16, tile_n=64, tile_k=64, pipeline="compv3").config

    Nothing is corrected: a direction with a pipeline that it lacks stays as it is, and run() refuses the config.
    """

    variant: str = "forward"
    ndim_spatial: int = 2
    dtype: str = "fp16"
    layout: str = "nhwgc"
    arch: str = "gfx942"
    tile_m: int = 1
    tile_n: int = 128
    tile_k: int = 128
    wave_m: int = 2
    wave_n: int = 2
    wave_k: int = 1
    warp_tile_m: int = 32
    warp_tile_n: int = 32
    warp_tile_k: int = 16
    pipeline: str = "compv4"
    epilogue: str = "cshuffle"
    scheduler: str = "intrawave"
    vector_size_a: int = 4
    vector_size_b: int = 8
    vector_size_c: int = 8
    block_per_cu: int = 1
    num_wave_groups: int = 1
    num_groups_to_merge: int = 1
    pad_m: bool = True
    pad_n: bool = True
    pad_k: bool = True
    double_smem_buffer: bool = False
    split_image: bool = False
    explicit_gemm: bool = False
    two_stage: bool = False

    def __post_init__(self) -> None:
        self.variant = _variant(self.variant)
        self.config  # raises InvalidArgument for a word or a number that no name can hold

    def _dims(self, what: str) -> str:
        return "x".join(str(getattr(self, f"{what}_{axis}")) for axis in "mnk")

    def _joined(self, words: list[str], suffixes: dict[str, bool]) -> str:
        merged = {f"gm{self.num_groups_to_merge}": self.num_groups_to_merge != 1, "dsb": self.double_smem_buffer}
        return "_".join(words + [suffix for suffix, is_set in {**merged, **suffixes}.items() if is_set])

    @property
    def name(self) -> str:
        """CK Tile's short name, which leaves out waves, warp tile, vector widths and pads."""
        words = ["grouped_conv", self.variant, self.dtype, f"{self.ndim_spatial}d", self._dims("tile"), self.pipeline, self.scheduler]
        return self._joined(words, {"si": self.split_image, "2stage": self.two_stage})

    @property
    def config(self) -> Config:
        """The kscout.Config, which holds every parameter except `arch`."""
        direction = DIRECTIONS[self.variant].removeprefix("conv_")
        layout = self.layout.lower().split("_")[0]
        if self.ndim_spatial == 3 and layout == "nhwgc":  # the default, whatever the dimensions
            layout = "ndhwgc"
        words = ["grouped_conv", direction, self.dtype, layout, f"{self.ndim_spatial}d", self.pipeline, self.epilogue, self.scheduler]
        words += [self._dims("tile"), self._dims("wave"), self._dims("warp_tile")]
        vectors = (self.vector_size_a, self.vector_size_b, self.vector_size_c)
        pads = "".join(str(int(pad)) for pad in (self.pad_m, self.pad_n, self.pad_k))
        suffixes = {
            "vec" + "_".join(map(str, vectors)): vectors != (4, 8, 8),
            f"bpc{self.block_per_cu}": self.block_per_cu != 1,
            f"wg{self.num_wave_groups}": self.num_wave_groups != 1,
            "2stage": self.two_stage,
            "explicit_gemm": self.explicit_gemm,
            "large_tensor": self.split_image,
            f"pad{pads}": pads != "111",
        }
        return Config(self._joined(words, suffixes))


@dataclass
class GroupedConvResult:
    """What a run gave. Where nothing here can run the problem, `success` is False and `error` says why."""

    success: bool = False
    time_ms: float = 0.0
    tflops: float = 0.0
    output: Any = None
    error: str = ""


def _on_gpu(array: Any) -> bool:
    return bool(getattr(array, "is_cuda", False)) or hasattr(array, "__cuda_array_interface__")


def _as_float32(array: Any) -> Any:
    """The values of an array in the CPU's memory, also of types that NumPy lacks."""
    import numpy

    if hasattr(array, "detach"):  # PyTorch
        array = array.detach().float()
    return numpy.ascontiguousarray(numpy.asarray(array), dtype=numpy.float32)


def _rounded(values: Any, dtype: str) -> Any:
    """float32 values rounded to a 16-bit type, to nearest even."""
    import numpy

    if dtype == "fp16":
        return values.astype(numpy.float16).astype(numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return numpy.where(numpy.isnan(values), values, rounded.astype(numpy.uint32).view(numpy.float32))


class GroupedConvRegistry:
    """Chooses and runs kernels of convolutions.

        registry = ck_tile.GroupedConvRegistry(arch="gfx950")
        result = registry.run(problem, input, weight)       # GroupedConvResult
        registry.select(problem).name                       # what the model of gfx950 chooses; runs nothing

    `arch` names the device whose model select() reads; None: this machine. `libraries` are index files of kernel libraries
    (`kscout generate`). Arrays run where they are: on the CPU, or on the GPU of their package (PyTorch under ROCm or CUDA).
    """

    def __init__(self, name: str = "default", *, arch: Device | str | None = None, libraries: Iterable[str | os.PathLike[str]] = ()):
        self.name, self.arch = name, arch
        self._kernels: list[Kernel] = []
        self._runs = Registry(libraries=[os.fspath(library) for library in libraries])

    def add(self, config: GroupedConvKernelConfig | Kernel) -> None:
        """Adds a kernel; select() then ranks the added kernels of the problem's direction in place of the model's."""
        self._kernels.append(config.config if isinstance(config, GroupedConvKernelConfig) else config)

    @property
    def kernels(self) -> list[Kernel]:
        return list(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def select(self, problem: GroupedConvProblem) -> Config | None:
        """The config of the highest predicted speed by the model of `arch`; None where no added kernel is of the direction."""
        conv = problem.conv()
        if not self._kernels:
            device = "auto" if self.arch is None else self.arch
            return Selector.find(conv.dtype_in, op=conv.op, device=device).select(conv).config
        mine = [config for config in configs_from(self._kernels, conv) if config.signature["op"] == conv.op]
        return rank_kernels(conv, 1, kernels=mine, device=self.arch)[0].config if mine else None

    def get_solution(self, problem: GroupedConvProblem) -> Solution:
        """What run() will do with arrays in the CPU's memory."""
        return self._runs.get_solution(self._here(problem.conv()), space="host")

    def _here(self, conv: Conv) -> Conv:
        """The problem that a kernel on this CPU computes: 16-bit floats as float32 where no kernel takes them."""
        if conv.dtype_in not in ("fp16", "bf16"):
            return conv
        try:
            self._runs.get_solution(conv, space="host")
        except (Unsupported, NotFound):
            return conv.replace(dtype="fp32")
        return conv

    def run(self, problem: GroupedConvProblem, input: Any, weight: Any, output: Any = None) -> GroupedConvResult:
        """Computes the problem's direction from two arrays: X and W, dY and W (bwd_data), or X and dY (bwd_weight).

        Arrays have the order of input_shape(), weight_shape() and output_shape(), with G and channels together or apart.
        Where no kernel on the CPU takes fp16 or bf16, the values are rounded to that type, multiplied and summed as float32, and
        the result is rounded: as on a GPU that accumulates in float32. `time_ms` is that of this one call.
        """
        conv = problem.conv(_dtype_of(input))
        try:
            return self._run(conv, input, weight, output, problem.result_shape())
        except (Unsupported, NotFound, DeviceFailure) as error:
            return GroupedConvResult(error=str(error))

    def _run(self, conv: Conv, input: Any, weight: Any, output: Any, shape: tuple[int, ...]) -> GroupedConvResult:
        on_gpu = _on_gpu(input)
        here = conv if on_gpu else self._here(conv)
        a, b, c = input, weight, output
        if here != conv:
            a, b, c = _rounded(_as_float32(a), conv.dtype_in), _rounded(_as_float32(b), conv.dtype_in), None
        if c is None and on_gpu:
            c = input.new_empty(shape)
        if conv.op == "conv_bwd_weight":
            a, b = b, a  # kscout's order: the output's gradient comes first
        if not on_gpu:
            self._runs.get_solution(here, space="host")  # reads the model before the clock starts
        if on_gpu:  # the run is only enqueued there
            sys.modules["torch"].cuda.synchronize()
        begin = time.perf_counter()
        c = self._runs.run(here, a, b, c)
        if on_gpu:
            sys.modules["torch"].cuda.synchronize()
        seconds = time.perf_counter() - begin
        if here != conv:
            c = _rounded(c, conv.dtype_in)
            c = input.new_tensor(c) if hasattr(input, "new_tensor") else c.astype(input.dtype)
            if output is not None:
                output[...] = c.reshape(output.shape)
        result = output if output is not None else c.reshape(shape)
        return GroupedConvResult(True, 1e3 * seconds, 1e-12 * conv.flops / seconds, result)


def _dtype_of(array: Any) -> str | None:
    words = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
    return words.get(str(getattr(array, "dtype", "")).removeprefix("torch."))


class GpuGroupedConvRunner:
    """Runs convolutions with the kernels of one library.

        runner = ck_tile.GpuGroupedConvRunner("kernels/build/ck.kscout-library.json")
        result = runner.run(input, weight, problem)

    `lib_path` is the index file of a kernel library. Arrays run where they are: without an AMD GPU, on the CPU.
    """

    def __init__(self, lib_path: str | os.PathLike[str] | None = None):
        self._registry = GroupedConvRegistry(libraries=[lib_path] if lib_path else [])

    def is_available(self) -> bool:
        """True, also before the first run: what cannot run is an error of the result."""
        return True

    def get_init_error(self) -> str | None:
        return None

    def cleanup(self) -> None:
        """Nothing is left to free."""

    def run(self, input_np: Any, weight_np: Any, problem: GroupedConvProblem, output_np: Any = None) -> GroupedConvResult:
        """The same as GroupedConvRegistry.run, with CK Tile's order and names of arguments."""
        return self._registry.run(problem, input_np, weight_np, output_np)
