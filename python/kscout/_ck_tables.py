"""Converts rows of CK Tile's tables to problems and kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Union

from ._core import Config, Conv, Gemm
from .errors import InvalidArgument

Problem = Union[Gemm, Conv, str, Mapping[str, Any]]
Kernel = Union[Config, str, Mapping[str, Any]]
Row = Mapping[str, Any]

#: Values that the GEMM tables imply where they have no such column. `split_k` 1: the table requests no split of K.
GEMM = MappingProxyType({"split_k": 1})
#: Values that the 2-D convolution tables imply where they have no such column: dense filters, images in nhwgc.
CONV_2D = MappingProxyType({"dilation_h": 1, "dilation_w": 1, "layout": "nhwgc"})
#: Values that the 3-D convolution tables imply; they write depth and dilation only where they differ from 1.
CONV_3D = MappingProxyType(
    {"Di": 1, "Z": 1, "stride_d": 1, "pad_d": 0, "dilation_d": 1, "dilation_h": 1, "dilation_w": 1, "layout": "ndhwgc"}
)
#: Values that the convolution tables imply for a kernel without such columns: scheduler intrawave, no suffix in its name.
CONV_KERNEL = MappingProxyType({"wave_mode": "intrawave", "has_dsb": False, "has_si": False})

_GEMM_KEYS = dict.fromkeys(("m", "n", "k", "split_k"), int) | dict.fromkeys(("dtype", "layout"), str)
_GEMM_ALIASES = {"M": "m", "N": "n", "K": "k"}
_CONV_SIZES = {"N": "n", "C": "c", "K": "k", "G": "g", "Hi": "h", "Wi": "w", "Y": "y", "X": "x"}
_CONV_KEYS = dict.fromkeys(
    (*_CONV_SIZES, "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_h", "pad_w"), int
) | dict.fromkeys(("dtype", "layout", "variant"), str)
_DEPTH_SIZES = {"Di": "d", "Z": "z"}
_DEPTH_KEYS = dict.fromkeys((*_DEPTH_SIZES, "stride_d", "dilation_d", "pad_d"), int)
_CONV_ALIASES = {"direction": "variant"}
PROBLEM_KEYS = frozenset({*_GEMM_KEYS, *_GEMM_ALIASES, *_CONV_KEYS, *_DEPTH_KEYS, *_CONV_ALIASES})
DIRECTIONS = {
    **{"forward": "conv_fwd", "fwd": "conv_fwd", "bwd_data": "conv_bwd_data", "bwd_weight": "conv_bwd_weight"},
    **{"bwdd": "conv_bwd_data", "bwdw": "conv_bwd_weight"},
    **{"2d_fwd": "conv_fwd", "2d_bwdd": "conv_bwd_data", "2d_bwdw": "conv_bwd_weight"},
}
VARIANTS = {"conv_fwd": "forward", "conv_bwd_data": "bwd_data", "conv_bwd_weight": "bwd_weight"}

_TILE = ("tile_m", "tile_n", "tile_k")
_WARPS = ("warp_m", "warp_n", "warp_k")
_WARP_TILE = ("warp_tile_m", "warp_tile_n", "warp_tile_k")
_FLAGS = ("pad_m", "pad_n", "pad_k", "persistent")
_GEMM_KERNEL_KEYS = (
    dict.fromkeys((*_TILE, *_WARPS, *_WARP_TILE), int)
    | dict.fromkeys(("pipeline", "scheduler", "epilogue"), str)
    | dict.fromkeys(_FLAGS, bool)
)
_CONV_KERNEL_KEYS = dict.fromkeys(_TILE, int) | dict.fromkeys(("pipeline", "scheduler"), str) | dict.fromkeys(("has_dsb", "has_si"), bool)
_CONV_KERNEL_ALIASES = {"wave_mode": "scheduler"}
# CK Tile's own columns of a tile. In its first tables they hold m, n, k of the tile; later tables add the last column, and then
# block_size holds threads.
_FIRST_TILE = ("block_size", "gemm_m_per_block", "gemm_n_per_block")
_LATER_TILE = ("gemm_m_per_block", "gemm_n_per_block", "gemm_k_per_block")
_THREADS = 256  # of a work-group whose waves are unknown
_NAME_KEYS = ("kernel_name", "name")
_NAME_STARTS = ("gemm_", "grouped_conv_", "benchmark_")  # of names that say what a kernel is; other names are labels
# Columns of a whole row that say how it was measured; those of the device begin with hw_.
_MEASURED_KEYS = frozenset(
    ("op_type", "arch", "ndim_spatial", "problem_idx", "run_id", "is_valid", "non_zero", "error_msg")
    + ("latency_ms", "tflops", "measured_tflops", "bandwidth_gb_s")
)

_EXPECTED = {int: "an int", bool: "a bool, or 0 or 1", str: "a str"}


def _listed(names: Iterable[str], aliases: Mapping[str, str]) -> str:
    other = {name: alias for alias, name in aliases.items()}
    return ", ".join(f"{name} (or {other[name]})" if name in other else name for name in names)


def _refuse_key(key: Any, what: str, known: Iterable[str], aliases: Mapping[str, str]) -> NoReturn:
    import difflib

    near = difflib.get_close_matches(str(key), [*known, *aliases], 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise InvalidArgument(f"{what} has no key {key!r}{hint} (allowed: {_listed(known, aliases)})")


def _checked(key: str, value: Any, kind: type, what: str) -> Any:
    """Checks the type of a value and returns it as `kind`. NumPy numbers are converted to Python numbers."""
    plain = value.item() if type(value).__module__ == "numpy" else value
    if kind is bool and type(plain) is int and plain in (0, 1):
        return bool(plain)
    if type(plain) is not kind and not (kind is str and isinstance(plain, str)):
        raise InvalidArgument(f"{what}: {key}={value!r} must be {_EXPECTED[kind]}, not {type(value).__name__}")
    return plain


class _Table:
    """The values of one row by key, with aliases resolved and `absent` filled in."""

    def __init__(self, row: Row, absent: Row | None, known: Mapping[str, type], aliases: Mapping[str, str], what: str):
        self.known, self.aliases, self.what = known, aliases, what
        self.values = self._resolved(row, what)
        self.values = {**self._resolved(absent or {}, f"{what} (absent=)"), **self.values}

    def _resolved(self, row: Row, what: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in row.items():
            name = self.aliases.get(key, key)
            if name not in self.known:
                _refuse_key(key, what, self.known, self.aliases)
            if name in values:
                other = next(alias for alias, of in self.aliases.items() if of == name)
                raise InvalidArgument(f"{what} has both '{name}' and '{other}', two words for one key; give one of them")
            values[name] = _checked(key, value, self.known[name], what)
        return values

    def need(self, names: Iterable[str]) -> None:
        names = list(names)
        missing = [name for name in names if name not in self.values]
        if missing:
            raise InvalidArgument(
                f"{self.what} lacks the required {_listed(missing, self.aliases)} (required: "
                f"{_listed(names, self.aliases)}); absent= gives the values of keys that a table leaves out"
            )

    def take(self, names: Mapping[str, str]) -> dict[str, Any]:
        return {to: self.values[name] for name, to in names.items() if name in self.values}


def _gemm_from(row: Row, absent: Row | None) -> Gemm:
    table = _Table(row, absent, _GEMM_KEYS, _GEMM_ALIASES, "a GEMM")
    table.need(_GEMM_KEYS)
    values = table.values
    if values["split_k"] < 1:
        raise InvalidArgument(f"a GEMM: split_k={values['split_k']} must be at least 1; 1 asks for no split")
    split = values["split_k"] if values["split_k"] > 1 else 0  # 1 in CK Tile's tables means a free choice, as in imported tables
    return Gemm(values["m"], values["n"], values["k"], values["dtype"], values["layout"], split_k=split)


def _conv_from(row: Row, absent: Row | None) -> Conv:
    table = _Table(row, absent, _CONV_KEYS | _DEPTH_KEYS, _CONV_ALIASES, "a convolution")
    table.need(_CONV_KEYS)
    values = table.values
    if "d" in values["layout"]:
        table.need({**_CONV_KEYS, **_DEPTH_KEYS})
    if values["variant"] not in DIRECTIONS:
        raise InvalidArgument(f"a convolution: variant '{values['variant']}' must be one of {', '.join(DIRECTIONS)}")
    same = {name: name for name in table.known if name.startswith(("stride_", "dilation_", "pad_"))}
    return Conv(
        **table.take({**_CONV_SIZES, **_DEPTH_SIZES, **same}),
        dtype=values["dtype"],
        layout=values["layout"],
        op=DIRECTIONS[values["variant"]],
    )


def problem_from(problem: Problem, *, absent: Row | None = None) -> Gemm | Conv:
    """Converts a problem from any form: Gemm, Conv, problem text, or a row of CK Tile's tables as a dict.

        problem_from({"m": 16, "n": 4096, "k": 4096, "dtype": "fp8", "layout": "rcr", "split_k": 1})
        row = {"N": 8, "C": 64, "K": 128, "G": 1, "Hi": 28, "Wi": 28, "Y": 3, "X": 3,
               "stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
        problem_from(row, absent={**ck_tile.CONV_2D, "dtype": "bf16", "variant": "forward"})

    A GEMM has the keys m, n, k (or M, N, K), split_k, dtype, layout. A convolution has N, C, K, G, Hi, Wi, Y, X, stride_h,
    stride_w, dilation_h, dilation_w, pad_h, pad_w, dtype, layout and variant (or direction: forward, fwd, bwd_data, bwd_weight),
    in a 3-D layout also Di, Z, stride_d, dilation_d, pad_d. Sizes count elements. split_k 1 leaves the split to the selector.

    Every key is required and no other is allowed. `absent` gives the values of keys that a dict leaves out: GEMM, CONV_2D and
    CONV_3D hold the values that CK Tile's tables imply. A key of the dict wins over `absent`. Raises InvalidArgument for a
    missing or unknown key and for a value of the wrong type.
    """
    if isinstance(problem, (Gemm, Conv)):
        return problem
    if isinstance(problem, str):
        return Conv(problem) if problem.startswith("conv_") else Gemm(problem)
    if not isinstance(problem, Mapping):
        raise TypeError(f"a problem is a Gemm, a Conv, a str or a dict, not {type(problem).__name__}")
    only_conv = {*_CONV_KEYS, *_DEPTH_KEYS, *_CONV_ALIASES} - {*_GEMM_KEYS, *_GEMM_ALIASES}
    return _conv_from(problem, absent) if any(key in only_conv for key in problem) else _gemm_from(problem, absent)


def _with_tile(kernel: Row) -> dict[str, Any]:
    """Replaces CK Tile's columns of a convolution's tile by tile_m, tile_n, tile_k."""
    later = "gemm_k_per_block" in kernel
    columns = _LATER_TILE if later else _FIRST_TILE
    if not any(key in kernel for key in columns):
        return dict(kernel)
    both = [key for key in _TILE if key in kernel]
    missing = [key for key in columns if key not in kernel]
    if both or missing:
        wrong = f"both '{both[0]}' and '{columns[0]}'; give one form" if both else f"no '{missing[0]}'"
        raise InvalidArgument(f"a convolution's kernel has {wrong} (a tile is {', '.join(_TILE)}, or {', '.join(columns)})")
    if later and kernel.get("block_size", _THREADS) != _THREADS:
        raise InvalidArgument(
            f"a convolution's kernel: block_size={kernel['block_size']!r} threads need the waves, which these columns lack: "
            "give kernel_name in its full form"
        )
    rest = {key: value for key, value in kernel.items() if key not in {*columns, "block_size"}}
    return {**rest, **{tile: _checked(key, kernel[key], int, "a convolution's kernel") for tile, key in zip(_TILE, columns)}}


def _columns_of_kernel(row: Row, problem: Gemm | Conv) -> dict[str, Any]:
    """The row without the columns that describe its measurement and its problem: `problem` decides, not the row."""
    keys = [_CONV_KEYS, _DEPTH_KEYS, _CONV_ALIASES] if isinstance(problem, Conv) else [_GEMM_KEYS, _GEMM_ALIASES]
    others = _MEASURED_KEYS.union(*keys)
    return {key: value for key, value in row.items() if key not in others and not str(key).startswith("hw_")}


def _check_types(row: Row, problem: Gemm | Conv, what: str) -> None:
    """Refuses a row without a kernel's name that was measured for other types, layout or direction than the problem's."""
    conv = isinstance(problem, Conv)
    wanted = {"dtype": problem.dtype_in if conv else problem.dtype_a, "layout": problem.layout}
    if conv:
        wanted |= dict.fromkeys(("variant", "direction"), problem.op)
    for key, value in wanted.items():
        if key in row and DIRECTIONS.get(row[key], row[key]) != value:
            raise InvalidArgument(f"{what}: {key}={row[key]!r}, but the problem has {value!r}: it computes another problem")


def is_label(name: Any, columns: Row) -> bool:
    """Whether a name says nothing about the kernel, which the other columns describe."""
    return isinstance(name, str) and not name.startswith(_NAME_STARTS) and len(columns) > 1


def _named_config(kernel: Row, key: str, problem: Gemm | Conv) -> Config:
    """The config that a row's name says; every other column of the row must agree with it."""
    config = Config(_checked(key, kernel[key], str, "a kernel"))
    rest = {other: value for other, value in kernel.items() if other != key}
    if not rest:
        return config
    conv = isinstance(problem, Conv)
    what = "a convolution's kernel" if conv else "a GEMM's kernel"
    known, aliases = (_CONV_KERNEL_KEYS, _CONV_KERNEL_ALIASES) if conv else (_GEMM_KERNEL_KEYS, {})
    table = _Table(_threads_checked(rest, config) if conv else rest, None, known, aliases, what)
    axes = {"has_dsb": "double_buffer", "has_si": "split_image"}
    neutral = {"scheduler": "intrawave", "has_dsb": False, "has_si": False}  # of names that say nothing
    for column, value in table.values.items():
        said = config[axes.get(column, column)]
        said = neutral.get(column) if said is None else bool(said) if known[column] is bool else said
        runs_padded = column.startswith("pad_") and config["pipeline"] == "mem"  # whatever a row says
        if said != value and not runs_padded:
            raise InvalidArgument(f"{what}: {column}={value!r}, but '{kernel[key]}' says {said!r}; leave one of them out")
    return config


def _threads_checked(row: Row, config: Config) -> dict[str, Any]:
    """Checks threads in block_size against a name that states the waves, and converts the columns of the tile."""
    waves = [config[axis] for axis in _WARPS]
    if "gemm_k_per_block" in row and "block_size" in row and None not in waves:
        threads = 64 * waves[0] * waves[1] * waves[2]
        if row["block_size"] != threads:
            raise InvalidArgument(f"a convolution's kernel: block_size={row['block_size']!r}, but '{config.name}' has {threads} threads")
        row = {key: value for key, value in row.items() if key != "block_size"}
    return _with_tile(row)


def _dims(values: Row, names: Iterable[str]) -> str:
    return "x".join(str(values[name]) for name in names)


def config_from(kernel: Kernel, problem: Gemm | Conv, *, absent: Row | None = None) -> Config:
    """Converts a kernel from any form: Config, name, {"kernel_name": name}, or the kernel columns of CK Tile's tables as a dict.

        config_from({"tile_m": 64, "tile_n": 64, "tile_k": 64, "pipeline": "compv3"}, problem, absent=ck_tile.CONV_KERNEL)

    A GEMM's kernel has the keys tile_m, tile_n, tile_k, warp_m, warp_n, warp_k, warp_tile_m, warp_tile_n, warp_tile_k, pipeline,
    scheduler, epilogue, pad_m, pad_n, pad_k, persistent. A convolution's kernel has tile_m, tile_n, tile_k, pipeline, scheduler
    (or wave_mode), has_dsb, has_si. Types, layout and direction are the problem's.

    Instead of tile_m, tile_n, tile_k a convolution's kernel may have the columns of CK Tile's tables: block_size,
    gemm_m_per_block and gemm_n_per_block, which in the first tables hold m, n and k of the tile; or, with gemm_k_per_block,
    the tile in the last three and threads in block_size. With `kernel_name` (or `name`) the name decides, and other columns must
    agree with it. A name that is no kernel's name is a label: the columns decide, and rankings return the label.

    The dict may be a whole row of a table: the columns of its problem and of its measurement are ignored, because the problem
    is `problem`. Every key of the kernel is required and no other is allowed. `absent` gives the values of keys that a dict leaves out: CONV_KERNEL holds
    the values that CK Tile's tables of convolutions imply. Raises InvalidArgument as problem_from does.
    """
    if isinstance(kernel, Config):
        return kernel
    if isinstance(kernel, str):
        return Config(kernel)
    if not isinstance(kernel, Mapping):
        raise TypeError(f"a kernel is a Config, a str or a dict, not {type(kernel).__name__}")
    columns = _columns_of_kernel(kernel, problem)
    named = [key for key in _NAME_KEYS if key in columns]
    if named and not is_label(columns[named[0]], columns):
        return _named_config(columns, named[0], problem)
    columns = {key: value for key, value in columns.items() if key not in named}
    _check_types(kernel, problem, "a kernel")
    if isinstance(problem, Conv):
        table = _Table(_with_tile(columns), absent, _CONV_KERNEL_KEYS, _CONV_KERNEL_ALIASES, "a convolution's kernel")
        table.need(_CONV_KERNEL_KEYS)
        values = table.values
        flags = "".join(f"_{word}" for word, key in (("dsb", "has_dsb"), ("si", "has_si")) if values[key])
        rank = 3 if "d" in problem.layout else 2
        types = f"{VARIANTS[problem.op]}_{problem.dtype_in}_{rank}d"
        return Config(f"grouped_conv_{types}_{_dims(values, _TILE)}_{values['pipeline']}_{values['scheduler']}{flags}")
    table = _Table(columns, absent, _GEMM_KERNEL_KEYS, {}, "a GEMM's kernel")
    table.need(_GEMM_KERNEL_KEYS)
    values = table.values
    words = "_".join(values[key] for key in ("pipeline", "epilogue", "scheduler"))
    flags = "_".join(str(values[key]) for key in _FLAGS)
    dims = "_".join(_dims(values, names) for names in (_TILE, _WARPS, _WARP_TILE))
    return Config(f"gemm_universal_{problem.dtype_a}_{problem.layout}_{words}_{flags}_{dims}")


def configs_from(kernels: Iterable[Kernel], problem: Gemm | Conv, *, absent: Row | None = None) -> list[Config]:
    """Applies config_from to each kernel. Raises TypeError for one kernel in place of several."""
    if isinstance(kernels, (str, Mapping, Config)):
        raise TypeError(f"kernels is one {type(kernels).__name__}, not several kernels: put it into a list")
    return [config_from(kernel, problem, absent=absent) for kernel in kernels]


def names_from(kernels: Iterable[Kernel], configs: Iterable[Config]) -> list[str]:
    """The name of each kernel as the caller wrote it; the config's own name where the caller gave none."""

    def written(kernel: Kernel, config: Config) -> str:
        if isinstance(kernel, str):
            return kernel
        named = [kernel[key] for key in _NAME_KEYS if key in kernel] if isinstance(kernel, Mapping) else []
        return named[0] if named else config.name

    return [written(kernel, config) for kernel, config in zip(kernels, configs)]
