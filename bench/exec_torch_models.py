"""The models of bench/exec_torch.py, with random weights in bf16: training steps, generation, and inference of images.

Each of Step, Generation and Inference is built for one model, eager or as a CUDA graph, and has run(), which returns losses. All
inputs are fixed random ones, so two processes compute the same. `torch` is the module: only workers import it.
"""
import functools

DEVICE = "cuda"
TOKENS, SEQUENCE, HIDDEN, HEADS, LAYERS, WORDS, PADDED_WORDS = 8192, 1024, 768, 12, 12, 50257, 50304
LLAMA = {"hidden": 4096, "heads": 32, "kv_heads": 8, "inner": 14336, "words": 128256}
LLAMA_TOKENS, LLAMA_SEQUENCE = 4096, 2048
VIT = {"size": 224, "patch": 16, "hidden": 1024, "heads": 16, "layers": 24, "classes": 1000}
VIT_IMAGES = 64
PROMPT, GENERATED = 128, 64  # tokens of a sequence


def causal(torch, _, q, k, v):
    """Attention of the sequences to themselves. Several heads of q may share one of k and v."""
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = (part.repeat_interleave(shared, dim=1) for part in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Cache:
    """The keys and values of the positions so far, in memory that stays in place, as a CUDA graph needs it."""

    def __init__(self, torch, layers, batch, heads, size, length):
        self.torch = torch
        self.keys, self.values = (torch.zeros(layers, batch, heads, length, size, device=DEVICE, dtype=torch.bfloat16)
                                  for _ in range(2))
        self.places = torch.arange(length, device=DEVICE)
        self.at = self.mask = None

    def move(self, at):
        """The next calls compute these positions."""
        self.at, self.mask = at, self.places <= at[:, None]

    def attend(self, layer, q, k, v):
        keys, values = self.keys[layer].index_copy_(2, self.at, k), self.values[layer].index_copy_(2, self.at, v)
        shared = q.shape[1] // k.shape[1]
        if shared > 1:
            keys, values = (part.repeat_interleave(shared, dim=1) for part in (keys, values))
        return self.torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=self.mask)


def gpt2(torch, batch, sequence, words=WORDS):
    """GPT-2 with 124M parameters on random tokens; a call computes the loss."""
    functional = torch.nn.functional

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
            self.qkv, self.out = torch.nn.Linear(HIDDEN, 3 * HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x, attend):
            q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(x.shape))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(torch.nn.Module):
        cached = {"layers": LAYERS, "heads": HEADS, "size": HIDDEN // HEADS}

        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(words, HIDDEN), torch.nn.Embedding(sequence, HIDDEN)
            self.blocks, self.norm = torch.nn.ModuleList(Block() for _ in range(LAYERS)), torch.nn.LayerNorm(HIDDEN)
            self.ids = torch.randint(0, WORDS, (batch, sequence), device=DEVICE)

        def compute(self, ids, places, attend):
            x = self.words(ids) + places
            for layer, block in enumerate(self.blocks):
                x = block(x, functools.partial(attend, layer))
            return self.norm(x)

        def at(self, at, attend):
            """What the head gets, at these positions."""
            return self.compute(self.ids.index_select(1, at), self.places.weight.index_select(0, at), attend)

        def head(self, x):
            return x @ self.words.weight.t()

        def forward(self):
            logits = self.head(self.compute(self.ids, self.places.weight, functools.partial(causal, torch)))
            return functional.cross_entropy(logits[:, :-1].reshape(-1, words), self.ids[:, 1:].reshape(-1))
    return Model()


def llama(torch, batch, sequence):
    """One block and the head of Llama-3-8B on random activations; a call computes the loss."""
    functional, linear = torch.nn.functional, lambda a, b: torch.nn.Linear(a, b, bias=False)
    hidden, heads, kv_heads, inner, words = LLAMA.values()
    size = hidden // heads

    def norm(x, weight):
        return functional.rms_norm(x, (hidden,), weight, 1e-5)

    def turn(x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    class Model(torch.nn.Module):
        cached = {"layers": 1, "heads": kv_heads, "size": size}

        def __init__(self):
            super().__init__()
            self.norms = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(hidden)) for _ in range(3))
            self.q, self.k, self.v = linear(hidden, hidden), linear(hidden, kv_heads * size), linear(hidden, kv_heads * size)
            self.out, self.to_words = linear(hidden, hidden), linear(hidden, words)
            self.gate, self.up, self.down = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)
            self.x = torch.randn(batch, sequence, hidden, device=DEVICE).bfloat16()
            self.ids = torch.randint(0, words, (batch, sequence), device=DEVICE)
            angles = torch.outer(torch.arange(sequence, device=DEVICE),
                                 500000.0 ** (-torch.arange(0, size, 2, device=DEVICE) / size)).repeat(1, 2)
            self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()

        def compute(self, given, cos, sin, attend):
            x = norm(given, self.norms[0])
            q, k, v = (part(x).view(*x.shape[:2], -1, size).transpose(1, 2) for part in (self.q, self.k, self.v))
            attended = attend(0, turn(q, cos, sin), turn(k, cos, sin), v)
            x = given + self.out(attended.transpose(1, 2).reshape(x.shape))
            inside = norm(x, self.norms[1])
            x = x + self.down(functional.silu(self.gate(inside)) * self.up(inside))
            return norm(x, self.norms[2])

        def at(self, at, attend):
            """What the head gets, at these positions."""
            return self.compute(self.x.index_select(1, at), self.cos.index_select(0, at), self.sin.index_select(0, at), attend)

        def head(self, x):
            return self.to_words(x)

        def forward(self):
            logits = self.head(self.compute(self.x, self.cos, self.sin, functools.partial(causal, torch)))
            return functional.cross_entropy(logits.view(-1, words), self.ids.view(-1))
    return Model()


def vit(torch, images):
    """ViT-L/16 on random images; a call computes the loss."""
    functional = torch.nn.functional
    size, patch, hidden, heads, layers, classes = VIT.values()

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
            self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
            self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            q, k, v = (part.view(*x.shape[:2], heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
            x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = torch.nn.Conv2d(3, hidden, patch, patch)
            self.first = torch.nn.Parameter(torch.zeros(1, 1, hidden))
            self.places = torch.nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, hidden))
            self.blocks, self.norm = torch.nn.ModuleList(Block() for _ in range(layers)), torch.nn.LayerNorm(hidden)
            self.head = torch.nn.Linear(hidden, classes)
            self.images = torch.randn(images, 3, size, size, device=DEVICE).bfloat16()
            self.classes = torch.randint(0, classes, (images,), device=DEVICE)

        def forward(self):
            x = self.patches(self.images).flatten(2).transpose(1, 2)
            x = torch.cat((self.first.expand(images, -1, -1), x), dim=1) + self.places
            for block in self.blocks:
                x = block(x)
            return functional.cross_entropy(self.head(self.norm(x)[:, 0]), self.classes)
    return Model()


def build(torch, make, *sizes):
    """The model in bf16, with equal weights in each process."""
    torch.manual_seed(2)
    with torch.device(DEVICE):
        model = make(torch, *sizes)
    for one in model.parameters():
        if one.dim() == 2:
            torch.nn.init.normal_(one, std=0.02)
    return model.bfloat16()


def capture(torch, compute, settle):
    """A graph of what `compute` does, after it was called `settle` times; and its result, which each replay overwrites."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(settle):
            compute()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compute()
    return graph, result


class Step:
    """A training step of a model. A graph is captured after `settle` steps."""

    def __init__(self, torch, model, words, graph, settle):
        makers = {"gpt2": (gpt2, TOKENS // SEQUENCE, SEQUENCE, words),
                  "llama": (llama, LLAMA_TOKENS // LLAMA_SEQUENCE, LLAMA_SEQUENCE), "vit": (vit, VIT_IMAGES)}
        self.model = build(torch, *makers[model])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True, capturable=graph)
        self.graph, self.loss = capture(torch, self.compute, settle) if graph else (None, None)

    def compute(self):
        loss = self.model()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def run(self):
        if not self.graph:
            return self.compute()
        self.graph.replay()
        return self.loss.clone()


class Generation:
    """Computes a prompt, and then one token after the other with cached keys and values. The model chooses each token, but a
    fixed random one follows, so that losses can be compared. With a graph, each replay computes a token; the prompt is eager.
    """

    def __init__(self, torch, model, batch, graph, settle):
        self.torch, length = torch, PROMPT + GENERATED
        self.model = build(torch, {"gpt2": gpt2, "llama": llama}[model], batch, length + 1)
        self.cache = Cache(torch, batch=batch, length=length, **self.model.cached)
        self.prompt, self.last = torch.arange(PROMPT, device=DEVICE), torch.zeros(1, device=DEVICE, dtype=torch.long)
        self.chosen = torch.zeros(batch, length + 1, device=DEVICE, dtype=torch.long)
        self.losses = torch.zeros(length, device=DEVICE)
        self.graph = None
        with torch.no_grad():
            for _ in range(settle):
                self.begin()
                self.advance()
            self.begin()
            if graph:
                self.graph, _ = capture(torch, self.advance, settle)

    def begin(self):
        self.last.fill_(PROMPT - 1)
        self.compute(self.prompt)

    def advance(self):
        """Computes the token behind the last one."""
        self.last.add_(1)
        self.compute(self.last)

    def compute(self, at):
        self.cache.move(at)
        logits = self.model.head(self.model.at(at, self.cache.attend)[:, -1])
        follows = self.last + 1
        self.chosen.index_copy_(1, follows, logits.argmax(dim=-1, keepdim=True))
        loss = self.torch.nn.functional.cross_entropy(logits.float(), self.model.ids.index_select(1, follows)[:, 0])
        self.losses.index_copy_(0, self.last, loss[None])

    def run(self):
        with self.torch.no_grad():
            self.begin()
            for _ in range(GENERATED):
                if self.graph:
                    self.graph.replay()
                else:
                    self.advance()
            return self.losses[PROMPT - 1:].clone()


class Inference:
    """Classifies a batch of images."""

    def __init__(self, torch, graph, settle):
        self.torch, self.model = torch, build(torch, vit, VIT_IMAGES)
        with torch.no_grad():
            self.graph, self.loss = capture(torch, self.model, settle) if graph else (None, None)

    def run(self):
        if self.graph:
            self.graph.replay()
            return self.loss.clone()
        with self.torch.no_grad():
            return self.model()
