from __future__ import annotations

import functools

from ._core import Choice, Device, Gemm, Selector


@functools.lru_cache(maxsize=16)
def _selector(model: str | None, dtype: str, device: Device | str) -> Selector:
    return Selector.find(dtype, device=device) if model is None else Selector.load(model)


def rank_kernels(
    problem: Gemm | str, top: int = 5, *, by: str = "best", model: str | None = None, device: Device | str = "auto"
) -> list[Choice]:
    """The best configs for a problem, best first. Nothing is run.

        for choice in kscout.rank_kernels("gemm:16x4096x4096", top=3):
            print(choice.name, choice.time_us)

    `model` is a folder; without it the first one for the problem's type and the device on the search path answers.
    Selectors stay loaded for the life of the process; an application keeps a `Selector` of its own.
    """
    if isinstance(problem, str):
        problem = Gemm(problem)
    return _selector(model and str(model), problem.dtype_a, device).rank(problem, top, by)
