"""Multiplies the tokens of four experts with the experts' weights in one call, then those of the next routing."""

import numpy as np

import kscout

registry = kscout.Registry()
random = np.random.default_rng(1)
tokens = random.standard_normal((24, 64), dtype=np.float32)  # sorted by expert
weights = random.standard_normal((4, 96, 64), dtype=np.float32)  # (experts, outputs, inputs)

problem = kscout.Problem("grouped_gemm:15+2+0+7x96x64")
for rows in ([15, 2, 0, 7], [4, 8, 8, 4]):
    problem = problem.replace(m=rows)
    result = registry.run(problem, tokens, weights)
    print(problem, "by", registry.get_solution(problem).choice.name)
    expert_of_token = np.repeat(np.arange(4), rows)
    assert np.allclose(result, np.einsum("tk,tnk->tn", tokens, weights[expert_of_token]), atol=1e-4)

try:
    registry.run(problem.replace(m=[15, 2, 0, 8]), tokens, weights)
except kscout.InvalidArgument as error:  # 25 rows, but 24 tokens
    print(error)
else:
    raise AssertionError("a list that disagrees with the arrays")
