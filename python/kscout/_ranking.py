from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._core import Choice, Conv, Device, Gemm, Selector
from .errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from ._predictor import Kernel, Predictor, Problem


@functools.lru_cache(maxsize=16)
def _loaded(model: str, device: Device | str | None) -> Selector:
    return Selector.load(model, device=device)


@functools.lru_cache(maxsize=16)
def _found(op: str, dtype: str, device: Device | str) -> Selector:
    return Selector.find(dtype, op=op, device=device)


def _selector(problem: Gemm | Conv, model: str | None, device: Device | str | None) -> Selector:
    if model is not None:
        return _loaded(model, device)
    op, dtype = (problem.op, problem.dtype_in) if isinstance(problem, Conv) else ("gemm", problem.dtype_a)
    return _found(op, dtype, "auto" if device is None else device)


def _predictor(problem: Gemm | Conv, model: str | None, device: Device | str | None) -> Predictor:
    from ._predictor import Predictor

    if model is not None:
        return Predictor(model, device=device)
    path = _selector(problem, None, device).model_path
    if path is None:
        raise NotFound(f"no model for {problem}: name one with model=, or another device with device=")
    return Predictor(path)


def _count(top: int) -> int:
    try:
        count = operator.index(top)
    except TypeError:
        raise TypeError(f"top must be an int, not {type(top).__name__}; name the kernels to rank with kernels=") from None
    if count < 0:
        raise InvalidArgument(f"top={count} must be at least 0")
    return count


def rank_kernels(
    problem: Problem,
    top: int = 5,
    *,
    kernels: Iterable[Kernel] | None = None,
    by: str = "best",
    model: str | os.PathLike[str] | None = None,
    device: Device | str | None = None,
) -> list[Choice]:
    """The `top` best configs for a problem, best first: always a list of Choice, also for top=1. Nothing is run.

        for choice in kscout.rank_kernels("gemm:16x4096x4096", top=3):
            print(choice.name, choice.time_us)
        kscout.rank_kernels("conv_fwd:8x256x28x28:128x3x3:bf16:nhwgc:pad=1", device="gfx950")
        kscout.rank_kernels(problem, top=len(names), kernels=names, model="models/conv_fwd_bf16_gfx950")

    The list is shorter than `top` when fewer configs apply to the problem. `kernels` (names, Config, or dicts of CK Tile's tables)
    are ranked in place of the model's configs, by predicted TFLOPS; their applicability is not checked.
    `problem` may be such a dict, too (`kscout.ck_tile.problem_from`). `by`: best, tflops, latency or bandwidth, if the model was
    trained for it.

    `model` is a folder or `.ksf` file; without it the first model on the search path for the problem's type and the device
    is used, or analytic costs when there is none (with `kernels`: NotFound). `device`: by default the device that `model` was
    trained on; without both, this machine's CPU. Selectors stay loaded for the life of the process; an application keeps a
    `Selector` of its own.
    """
    from ._ck_tables import problem_from

    count = _count(top)
    asked = problem_from(problem)
    path = None if model is None else os.fspath(model)
    if kernels is None:
        return _selector(asked, path, device).rank(asked, count, by)
    if by not in ("best", "tflops"):
        raise InvalidArgument(f"by='{by}' with kernels=: named kernels are ranked by predicted TFLOPS; leave `by` out")
    return _predictor(asked, path, device).rank_kernels(asked, kernels)[:count]
