"""A mixture-of-experts product in Triton: gathers the tokens of each expert and multiplies them by its weights. Needs PyTorch and Triton."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows", "num_slots", "group_m"])
def expert_matmul(a, b, c, scale, rows, experts, used, n, k, num_rows, num_slots, group_m, share,
                  a_stride, b_expert_stride, b_stride, c_stride,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
                  SCALED: tl.constexpr):  # fmt: skip
    """c[slot] = a[slot / share] * b[expert of slot]', times scale[slot]. `rows`: slots by expert, each expert's filled up to blocks.

    Blocks walk group_m rows of tiles together, so that they share weights in the level-2 cache. Blocks behind `used` rows have nothing to do: the
    host launches as many as any routing may need.
    """
    program = tl.program_id(0)
    blocks_m = tl.cdiv(num_rows, BLOCK_M)
    blocks_n = tl.cdiv(n, BLOCK_N)
    band = group_m * blocks_n
    first = program // band * group_m
    height = tl.minimum(blocks_m - first, group_m)
    block_m = first + program % band % height
    block_n = program % band // height
    if block_m * BLOCK_M >= tl.load(used):
        return
    slot = tl.load(rows + block_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    taken = slot < num_slots
    expert = tl.load(experts + block_m).to(tl.int64)
    column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + (slot // share)[:, None] * a_stride + depth[None, :]
    b_at = b + expert * b_expert_stride + (column % n).to(tl.int64)[None, :] * b_stride + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        if EVEN_K:
            left = tl.load(a_at, mask=taken[:, None], other=0.0)
            right = tl.load(b_at)
        else:
            inside = depth < k - step * BLOCK_K
            left = tl.load(a_at, mask=taken[:, None] & inside[None, :], other=0.0)
            right = tl.load(b_at, mask=inside[:, None], other=0.0)
        total = tl.dot(left, right, acc=total)
        a_at += BLOCK_K
        b_at += BLOCK_K
    if SCALED:
        total *= tl.load(scale + slot, mask=taken, other=0.0)[:, None]
    tl.store(c + slot[:, None] * c_stride + column[None, :], total.to(c.dtype.element_ty), mask=taken[:, None] & (column < n)[None, :])


def _constants(config: Any, k: int, scaled: bool) -> dict[str, Any]:
    depth = config.BLOCK_SIZE_K
    return {"BLOCK_M": config.BLOCK_SIZE_M, "BLOCK_N": config.BLOCK_SIZE_N, "BLOCK_K": depth, "EVEN_K": k % depth == 0, "SCALED": scaled,
            "num_warps": config.num_warps, "num_stages": config.num_stages}  # fmt: skip


def compile_config(config: Any, intermediate: int, hidden: int, top_k: int) -> None:
    """Compiles both products of a layer without operands; the binaries are in Triton's cache afterwards, for every process."""
    bf16, i32 = torch.bfloat16, torch.int32
    for n, k, scale, share in ((2 * intermediate, hidden, None, top_k), (hidden, intermediate, torch.float32, 1)):
        expert_matmul.warmup(bf16, bf16, bf16, scale, i32, i32, i32, n, k, 64, 64, 1, share, k, n * k, k, n,
                             **_constants(config, k, scale is not None), grid=(1,))  # fmt: skip


def _by_expert(ids: Any, num_experts: int, block_m: int) -> tuple[Any, Any, Any]:
    """Slots by expert, each expert's filled up to whole blocks; the expert of each block; the rows in use."""
    slots = ids.numel()
    counts = torch.bincount(ids, minlength=num_experts)
    blocks = (counts + block_m - 1) // block_m
    starts = (torch.cumsum(blocks, 0) - blocks) * block_m
    begins = torch.cumsum(counts, 0) - counts
    order = torch.argsort(ids, stable=True)
    position = starts[ids[order]] + torch.arange(slots, device=ids.device) - begins[ids[order]]
    most = slots + num_experts * (block_m - 1)  # of any routing, which is what an engine launches
    if slots < num_experts:
        most = min(most, slots * block_m)
    most = -(-most // block_m) * block_m
    rows = torch.full((most,), slots, dtype=torch.int32, device=ids.device)
    rows[position] = order.int()
    used = int(blocks.sum())
    experts = torch.zeros(most // block_m, dtype=torch.int32, device=ids.device)
    experts[:used] = torch.repeat_interleave(torch.arange(num_experts, device=ids.device), blocks).int()
    return rows, experts, torch.tensor([used * block_m], dtype=torch.int32, device=ids.device)


class Weights:
    """The weights of a layer's experts in bf16: gate and up together, and down."""

    def __init__(self, experts: int, intermediate: int, hidden: int):
        generator = torch.Generator(device="cuda").manual_seed(1)

        def some(*shape: int) -> Any:
            return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(std=0.05, generator=generator)

        self.up, self.down = some(experts, 2 * intermediate, hidden), some(experts, hidden, intermediate)


class Operands:
    """What both products of a layer read and write for one routing: `sizes` has the rows of each expert."""

    def __init__(self, weights: Weights, sizes: list[int], top_k: int):
        self.weights, self.top_k = weights, top_k
        slots, hidden, intermediate = sum(sizes), weights.up.shape[2], weights.down.shape[2]
        generator = torch.Generator(device="cuda").manual_seed(slots)
        self.tokens = torch.randn(slots // top_k, hidden, device="cuda", generator=generator).bfloat16()
        self.inner = torch.randn(slots, intermediate, device="cuda", generator=generator).bfloat16()
        self.scale = torch.rand(slots, device="cuda", generator=generator)
        # Slots are shuffled: an expert's tokens are far apart in memory.
        shuffled = torch.randperm(slots, device="cuda", generator=generator)
        self.ids = torch.repeat_interleave(torch.arange(len(sizes), device="cuda"), torch.tensor(sizes, device="cuda"))[shuffled]
        self.up = torch.empty(slots, 2 * intermediate, dtype=torch.bfloat16, device="cuda")
        self.down = torch.empty(slots, hidden, dtype=torch.bfloat16, device="cuda")
        self._sorted: dict[int, tuple[Any, Any, Any]] = {}
        self._graphs: dict[tuple[Any, ...], Any] = {}

    def reference(self) -> tuple[Any, Any]:
        up, down = torch.empty_like(self.up), torch.empty_like(self.down)
        for expert in range(len(self.weights.up)):
            slots = (self.ids == expert).nonzero().flatten()
            if len(slots):
                up[slots] = self.tokens[slots // self.top_k] @ self.weights.up[expert].T
                down[slots] = ((self.inner[slots] @ self.weights.down[expert].T).float() * self.scale[slots][:, None]).bfloat16()
        return up, down

    def run(self, config: Any) -> tuple[Any, Any]:
        """Both products. The first run of a config captures a graph, so that later ones cost one launch, as in an engine."""
        key = tuple(config.values())
        if key not in self._graphs:
            self._launch(config)  # compiles, and raises OutOfResources
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._launch(config)
            self._graphs[key] = graph
        self._graphs[key].replay()
        return self.up, self.down

    def _launch(self, config: Any) -> None:
        block_m = config.BLOCK_SIZE_M
        if block_m not in self._sorted:
            self._sorted[block_m] = _by_expert(self.ids, len(self.weights.up), block_m)
        rows, experts, used = self._sorted[block_m]
        for a, b, c, scale, share in ((self.tokens, self.weights.up, self.up, None, self.top_k), (self.inner, self.weights.down, self.down, self.scale, 1)):
            n, k = b.shape[1], b.shape[2]
            grid = (rows.numel() // block_m * triton.cdiv(n, config.BLOCK_SIZE_N),)
            expert_matmul[grid](a, b, c, scale, rows, experts, used, n, k, rows.numel(), self.ids.numel(), config.GROUP_SIZE_M, share,
                                a.stride(0), b.stride(0), b.stride(1), c.stride(0), **_constants(config, k, scale is not None))  # fmt: skip
