"""Convolves images in both orders of memory, with a filter packed once too, and computes the gradients of input and filter."""

import numpy as np

import kscout

registry = kscout.Registry()
x = np.ones((2, 16, 14, 14), np.float32)  # channels first in memory, as PyTorch's contiguous tensors
w = np.moveaxis(np.full((32, 3, 3, 16), 0.5, np.float32), -1, 1)  # channels last in memory, as torch.channels_last
y = registry.conv2d(x, w, padding=1)
assert y.shape == (2, 32, 14, 14) and y.flags.c_contiguous
assert y[0, 0, 0, 0] == 4 * 16 * 0.5 and y[0, 0, 1, 1] == 9 * 16 * 0.5

last = np.moveaxis(np.ones((2, 14, 14, 16), np.float32), -1, 1)  # the same images with channels last: no copies
assert (registry.conv2d(last, w, padding=1) == y).all()

packed = registry.pack_conv2d(x, w, padding=1)  # for many images like x: the filter is packed once
assert (packed(x) == y).all() and (packed(2 * x) == 2 * y).all()

ones = np.ones_like(y)
assert registry.conv2d_input(ones, w, x.shape, padding=1)[0, 0, 5, 5] == 9 * 32 * 0.5
assert registry.conv2d_weight(x, ones, w.shape, padding=1)[0, 0, 0, 0] == 2 * 13 * 13

for layout in ("nhwgc", "ngchw"):
    solution = registry.get_solution(kscout.Conv(2, 16, 32, 14, 14, 3, 3, layout=layout, pad=1))
    print(layout, solution.choice.name, "copies", solution.copy_bytes, "bytes")
