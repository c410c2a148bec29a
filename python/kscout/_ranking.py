from __future__ import annotations

import functools

from ._core import Choice, Conv, Device, Gemm, Selector


@functools.lru_cache(maxsize=16)
def _selector(model: str | None, op: str, dtype: str, device: Device | str) -> Selector:
    return Selector.find(dtype, op=op, device=device) if model is None else Selector.load(model)


def rank_kernels(
    problem: Gemm | Conv | str, top: int = 5, *, by: str = "best", model: str | None = None, device: Device | str = "auto"
) -> list[Choice]:
    """The best configs for a problem, best first. Nothing is run.

        for choice in kscout.rank_kernels("gemm:16x4096x4096", top=3):
            print(choice.name, choice.time_us)
        kscout.rank_kernels("conv_fwd:8x256x28x28:128x3x3:bf16:nhwgc:pad=1", device="gfx950")

    `model` is a folder; without it the first one for the problem's type and the device on the search path answers.
    Selectors stay loaded for the life of the process; an application keeps a `Selector` of its own.
    """
    if isinstance(problem, str):
        problem = Conv(problem) if problem.startswith("conv_") else Gemm(problem)
    op, dtype = (problem.op, problem.dtype_in) if isinstance(problem, Conv) else ("gemm", problem.dtype_a)
    return _selector(model and str(model), op, dtype, device).rank(problem, top, by)
