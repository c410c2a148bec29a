#!/usr/bin/env python3
"""./dev bench exec_networks: convolutional networks in stock PyTorch on a GPU: alone, with `torch.backends.cudnn.benchmark`, and under
`kscout exec`, in one run.

A process of each kind takes turns on one GPU. Twelve networks with random weights, inference in bf16, channels last. Needs
PyTorch with torchvision and an NVIDIA GPU; networks of transformers are left out where it is missing. Runs from a copied build,
too, with exec_torch.py beside it:

    python3 bench/exec_networks.py --build build/release

GPU times are sums over kernels by torch.profiler, medians of passes; the convolutions' are those of kernels that
`aten::cudnn_convolution` starts. Each convolution of two images is compared with float64.

    RESULT exec_networks.NET.pass    GPU time of a pass of PyTorch alone over that under kscout exec: above 1 we win
    RESULT exec_networks.NET.convs   the same of the convolutions alone
    RESULT exec_networks.NET.search  GPU time of a pass with cudnn.benchmark over that under kscout exec
    RESULT exec_networks.NET.first   seconds of the first 16 passes under kscout exec over those with cudnn.benchmark
    RESULT exec_networks.pass        geometric mean over networks; also .convs, .search, and .pass_worst, .search_worst, .first_most
    RESULT exec_networks.sizes       seconds for images of 40 sizes in turn, alone over under kscout exec
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time

from exec_torch import ROOT, PartFailed, Process, Results, Worker, answer_requests

NETWORKS = ("resnet50", "resnext50", "regnet_y", "convnext_t", "efficientnet_b3", "mobilenet_v3", "densenet121", "segformer_b0",
            "retinanet", "r3d_18", "unet_3d", "unet_diffusion")
IMAGES, FIRST_PASSES, PROFILED, ROUNDS = 64, 16, 5, 3
SIZES = [160 + 8 * i for i in range(40)]
MAX_ERROR = 2e-2  # of a bf16 result, relative to the largest element
GOALS = {"convs": (">=", 1.06), "pass": (">=", 1.025), "pass_worst": (">=", 0.99), "search_worst": (">=", 0.99),
         "first_most": ("<=", 1 / 3), "sizes": (">=", 1.0)}


# ---- Networks.

def unet_3d(torch, channels=(32, 64, 128, 256)):
    """A 3-D U-Net of pairs of 3x3x3 convolutions, as for images of medicine."""
    nn = torch.nn

    def pair(before, after):
        return nn.Sequential(*(layer for c in (before, after) for layer in
                               (nn.Conv3d(c, after, 3, padding=1), nn.InstanceNorm3d(after), nn.LeakyReLU(inplace=True))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList(pair(a, b) for a, b in zip((1, *channels), channels))
            self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in zip(channels, channels[1:]))
            self.join = nn.ModuleList(pair(2 * a, a) for a in channels[:-1])
            self.head = nn.Conv3d(channels[0], 4, 1)

        def forward(self, x):
            kept = []
            for level, block in enumerate(self.down):
                x = block(x if level == 0 else nn.functional.max_pool3d(x, 2))
                kept.append(x)
            for level in reversed(range(len(channels) - 1)):
                x = self.join[level](torch.cat((self.up[level](x), kept[level]), dim=1))
            return self.head(x)
    return Net()


def unet_diffusion(torch, channels=(128, 256, 384, 512)):
    """A 2-D U-Net of residual blocks, as diffusion models have; without attention, which has no convolution."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(32, before), nn.GroupNorm(32, after)
            self.conv1, self.conv2 = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
            self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x):
            inside = self.conv1(nn.functional.silu(self.norm1(x)))
            return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(inside)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(4, channels[0], 3, padding=1)
            self.down = nn.ModuleList(Block(a, b) for a, b in zip((channels[0], *channels), channels))
            self.shrink = nn.ModuleList(nn.Conv2d(c, c, 3, stride=2, padding=1) for c in channels[:-1])
            self.up = nn.ModuleList(Block(a + b, a) for a, b in zip(channels, channels[1:]))
            self.head = nn.Conv2d(channels[0], 4, 3, padding=1)

        def forward(self, x):
            x, kept = self.stem(x), []
            for level, block in enumerate(self.down):
                x = block(x)
                kept.append(x)
                if level < len(self.shrink):
                    x = self.shrink[level](x)
            for level in reversed(range(len(self.up))):
                x = self.up[level](torch.cat((nn.functional.interpolate(x, scale_factor=2), kept[level]), dim=1))
            return self.head(x)
    return Net()


def network(torch, name):
    """A model, and the sizes of its input."""
    square = (IMAGES, 3, 224, 224)
    if name == "unet_3d":
        return unet_3d(torch), (2, 1, 96, 96, 96)
    if name == "unet_diffusion":
        return unet_diffusion(torch), (16, 4, 64, 64)
    if name == "segformer_b0":
        from transformers import SegformerConfig, SegformerForSemanticSegmentation
        return SegformerForSemanticSegmentation(SegformerConfig()), (16, 3, 512, 512)
    from torchvision import models
    if name == "r3d_18":
        return models.video.r3d_18(), (16, 3, 16, 112, 112)
    if name == "retinanet":
        whole = models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone, self.head = whole.backbone, whole.head

            def forward(self, x):
                return self.head(list(self.backbone(x).values()))
        return Net(), (16, 3, 512, 512)
    makers = {"resnet50": models.resnet50, "resnext50": models.resnext50_32x4d, "regnet_y": models.regnet_y_3_2gf,
              "convnext_t": models.convnext_tiny, "efficientnet_b3": models.efficientnet_b3,
              "mobilenet_v3": models.mobilenet_v3_large, "densenet121": models.densenet121}
    return makers[name](), square


# ---- A worker.

class NetworkWorker(Worker):
    def __init__(self):
        super().__init__()
        self.model = self.x = None

    def search(self):
        self.torch.backends.cudnn.benchmark = True
        return True

    def build(self, name):  # pylint: disable=arguments-differ
        torch = self.torch
        torch.manual_seed(3)
        model, sizes = network(torch, name)
        last = torch.channels_last if len(sizes) == 4 else torch.channels_last_3d
        self.model = model.cuda().bfloat16().eval().to(memory_format=last)
        self.x = torch.randn(sizes, device="cuda").bfloat16().to(memory_format=last)
        return list(sizes)

    def passes(self, count):
        """Seconds of so many passes."""
        torch = self.torch
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.no_grad():
            for _ in range(count):
                self.model(self.x)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    def profile(self):
        """Milliseconds of the GPU in a pass, and in its convolutions; and its slowest convolutions."""
        torch = self.torch
        from torch.profiler import ProfilerActivity, profile
        all_ms, conv_ms = [], []
        for _ in range(PROFILED):
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as made, torch.no_grad():
                self.model(self.x)
                torch.cuda.synchronize()
            by_name = {event.key: event.self_device_time_total / 1e3 for event in made.key_averages()}
            all_ms.append(sum(ms for name, ms in by_name.items() if name.startswith("aten::")))
            conv_ms.append(by_name.get("aten::cudnn_convolution", 0))
        return {"all": statistics.median(all_ms), "convs": statistics.median(conv_ms)}

    def check(self):
        """The largest error of a convolution of the first and the last image, relative to its largest element."""
        torch, worst = self.torch, [0.0, ""]

        def compare(module, given, result):
            ends = [0, -1]
            x, y = given[0][ends].double(), result[ends].double()
            weight = module.weight.double()
            bias = None if module.bias is None else module.bias.double()
            convolve = torch.nn.functional.conv3d if weight.dim() == 5 else torch.nn.functional.conv2d
            exact = convolve(x, weight, bias, module.stride, module.padding, module.dilation, module.groups)
            error = ((y - exact).abs().max() / exact.abs().max().clamp(min=1e-30)).item()
            if not error <= worst[0]:
                worst[:] = [error, f"{list(given[0].shape)} by {list(weight.shape)}"]
        hooks = [module.register_forward_hook(compare) for module in self.model.modules()
                 if isinstance(module, (torch.nn.Conv2d, torch.nn.Conv3d))]
        try:
            self.passes(1)
        finally:
            for hook in hooks:
                hook.remove()
        return worst

    def sizes(self):
        """Seconds for images of all sizes in turn."""
        torch = self.torch
        begin = time.perf_counter()
        with torch.no_grad():
            for size in SIZES:
                x = torch.randn((8, 3, size, size), device="cuda").bfloat16().to(memory_format=torch.channels_last)
                for _ in range(4):
                    self.model(x)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    def drop_network(self):
        self.model = self.x = None
        self.torch.cuda.empty_cache()
        return True


# ---- The benchmark.

def compare_network(kinds, results, name):
    """`kinds`: processes alone, with the search, under kscout exec."""
    try:
        for process in kinds:
            sizes = process.build(name=name)
        first = [process.passes(count=FIRST_PASSES) for process in kinds]
        error, where = kinds[-1].check()
        if not error < MAX_ERROR:
            raise PartFailed(f"a convolution is wrong, {where}: error {error:.2g} against float64")
        for process in kinds:
            process.passes(count=2 * FIRST_PASSES)
        rounds = [[process.profile() for process in kinds] for _ in range(ROUNDS)]
    finally:
        for process in kinds:
            process.drop_network()
    passes, convs = ([statistics.median(one[kind][what] for one in rounds) for kind in range(len(kinds))] for what in ("all", "convs"))
    print(f"{name} {sizes}: ms of a pass {' / '.join(f'{ms:.2f}' for ms in passes)}, of its convolutions "
          f"{' / '.join(f'{ms:.2f}' for ms in convs)}; first {FIRST_PASSES} passes {' / '.join(f'{s:.1f}' for s in first)} s; "
          f"largest error {error:.1e}")
    alone, search, ours = range(3)
    results.add(f"{name}.pass", passes[alone] / passes[ours], "ratio")
    results.add(f"{name}.convs", convs[alone] / convs[ours], "ratio")
    results.add(f"{name}.search", passes[search] / passes[ours], "ratio")
    results.add(f"{name}.first", first[ours] / first[search], "ratio")


def add_means(results):
    def of(what):
        return [value for name, (value, *_) in results.all.items() if name.endswith(f".{what}")]
    if not of("pass"):
        return
    for what in ("pass", "convs", "search"):
        results.add(what, math.exp(statistics.fmean(map(math.log, of(what)))), "ratio")
    results.add("pass_worst", min(of("pass")), "ratio")
    results.add("search_worst", min(of("search")), "ratio")
    results.add("first_most", max(of("first")), "ratio")


def compare_sizes(kinds, results):
    try:
        for process in kinds:
            process.build(name="resnet50")
        seconds = [process.sizes() for process in kinds]
    finally:
        for process in kinds:
            process.drop_network()
    print(f"images of {len(SIZES)} sizes, seconds: {' / '.join(f'{s:.1f}' for s in seconds)}")
    results.add("sizes", seconds[0] / seconds[2], "ratio")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="folder of kscout and its libraries")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="networks to measure, comma-separated")
    parser.add_argument("--no-sizes", action="store_true", help="leave out images of many sizes")
    parser.add_argument("--seconds", type=float, default=450, help="time limit of the run: later networks are left out")
    parser.add_argument("--refine", action="store_true", help="measure `kscout exec --refine`")
    parser.add_argument("--report", help="file for the report of kscout exec")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        answer_requests(NetworkWorker)
        return
    until = time.monotonic() + asked.seconds
    results, failed = Results("exec_networks", GOALS), []
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "KSCOUT_PRELOAD_CONVOLUTIONS": "1"}
    env.setdefault("KSCOUT_MODEL_PATH", os.path.join(ROOT, "models"))
    with tempfile.TemporaryDirectory() as folder:
        env.setdefault("KSCOUT_DB", os.path.join(folder, "decisions.sqlite"))
        report = asked.report or os.path.join(folder, "report.txt")
        under = [os.path.join(asked.build, "kscout"), "exec", *(["--refine"] if asked.refine else []), "--report", report, "--"]
        script = os.path.abspath(__file__)
        kinds = [Process(name, before, env, script) for name, before in (("alone", []), ("search", []), ("kscout exec", under))]
        try:
            print(json.dumps(kinds[0].about()), flush=True)
            kinds[1].search()
        except PartFailed as error:
            sys.exit(f"exec_networks: {error}")
        for name in asked.networks.split(","):
            try:
                if time.monotonic() > until:
                    raise PartFailed("no time is left")
                compare_network(kinds, results, name)
            except PartFailed as error:
                print(f"exec_networks: {name}: {error}", file=sys.stderr)
                failed.append(name)
        add_means(results)
        if not asked.no_sizes and time.monotonic() < until:
            compare_sizes(kinds, results)
        failed += [process.name for process in kinds if not process.end()]
        with open(report, encoding="utf-8") as file:
            print(file.read())
    results.print_summary()
    if failed:
        sys.exit(f"exec_networks: not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
