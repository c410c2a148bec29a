from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._core import Choice, Conv, Device, Gemm, Selector

if TYPE_CHECKING:
    from ._predictor import Kernel, Problem


@functools.lru_cache(maxsize=16)
def _selector(model: str | None, op: str, dtype: str, device: Device | str) -> Selector:
    return Selector.find(dtype, op=op, device=device) if model is None else Selector.load(model)


def _found(problem: Gemm | Conv, device: Device | str) -> Any:
    op, dtype = (problem.op, problem.dtype_in) if isinstance(problem, Conv) else ("gemm", problem.dtype_a)
    return _selector(None, op, dtype, device).model_path


def rank_kernels(
    problem: Problem,
    top: int | Iterable[Kernel] = 5,
    *,
    by: str = "best",
    model: str | None = None,
    device: Device | str = "auto",
) -> list[Choice] | list[tuple[str, float]]:
    """The best configs for a problem, best first. Nothing is run.

        for choice in kscout.rank_kernels("gemm:16x4096x4096", top=3):
            print(choice.name, choice.time_us)
        kscout.rank_kernels("conv_fwd:8x256x28x28:128x3x3:bf16:nhwgc:pad=1", device="gfx950")

    With kernels in place of `top` (names, Config, or dicts of CK Tile's tables) these are ranked, as (name, predicted TFLOPS):

        kscout.rank_kernels({"N": 8, "C": 64, "K": 128, "Hi": 28, "Wi": 28, "Y": 3, "X": 3}, names, model="models/conv_fwd_bf16_gfx950")

    Problems may be such dicts, too. `model` is a folder; without it the first one for the problem's type and the device on the search path answers.
    Selectors stay loaded for the life of the process; an application keeps a `Selector` of its own.
    """
    from ._predictor import problem_from, ranked_of

    problem = problem_from(problem)
    if not isinstance(top, int):
        return ranked_of(problem, top, model, lambda _: _found(problem, device))
    op, dtype = (problem.op, problem.dtype_in) if isinstance(problem, Conv) else ("gemm", problem.dtype_a)
    return _selector(model and str(model), op, dtype, device).rank(problem, top, by)
