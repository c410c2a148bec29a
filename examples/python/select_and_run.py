"""Selects a kernel for a product, prints the choice and who made it, and runs it."""

import numpy as np

import kscout

a, b = np.ones((16, 512), np.float32), np.full((512, 1024), 2, np.float32)
for choice in kscout.rank_kernels(kscout.problem_of(a, b), top=3):
    print(choice.name, choice.time_us, "us, by", choice.decided_by)
c = kscout.Registry().matmul(a, b)
assert (c == 2 * 512).all()
