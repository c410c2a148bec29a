#!/usr/bin/env python3
"""Lists the convolutions that networks compute, and draws problem lists from them. Needs no GPU and no weights.

`list` creates each network on PyTorch's meta device, runs it on one image (or clip, or signal) and records every convolution.
It needs PyTorch, torchvision, timm and transformers. Networks of diffusers, monai, segmentation_models_pytorch, ultralytics and
spandrel are added where these packages are installed. A network that fails is reported on standard error and left out.

    python3 -m venv /tmp/nets
    /tmp/nets/bin/pip install torch torchvision timm transformers diffusers monai segmentation-models-pytorch pyarrow
    /tmp/nets/bin/python data/network_convs.py list --out layers.csv 2> failures.log
    /tmp/nets/bin/python data/network_convs.py draw --layers layers.csv --data data --out lists

`list` writes `network,calls,problem`. `calls` counts the calls per forward pass; `problem` is KernelScout's text. A transposed
convolution is the conv_bwd_data of the forward convolution that reads its output. A layer may read several images per input image
(regions of interest, frames), so N may be above 1.

`draw` writes OP.held_out.txt and OP.train.txt for the three directions. The key of a layer is (C, K, groups, filter). Of the keys that
DATA's parquet files of the H200 do not hold, a hash holds out 30 %. `draw` needs pyarrow.

    python3 data/network_convs.py layers --lists data/network_convs --out families/conv_layers.txt

`layers` makes the problem set `conv_layers`: of each key of the lists of forward training problems the layer with most calls.
"""
import argparse
import collections
import csv
import fnmatch
import glob
import hashlib
import importlib
import inspect
import math
import os
import random
import resource
import sys

OPS = ("conv_fwd", "conv_bwd_data", "conv_bwd_weight")
BATCHES, BATCHES_3D = (1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16)
MAX_FLOP, MAX_BYTES = 400e9, 2e9
HELD_OUT_SHARE, HELD_OUT_PROBLEMS, HELD_OUT_OF_KIND = 0.3, 240, 12  # of a kind: at least
TRAINING_KEYS = {"pointwise": 450, "squeeze": 150}  # at most; all of other kinds
MAX_MEMORY = 10 << 30  # for models that need memory for their weights
AXES = ("stride", "dilation", "pad")


class Conv(collections.namedtuple("Conv", "op n c k g image filter stride dilation pad")):
    """A convolution in the sizes of its forward problem. image ... pad have one number per axis."""

    @classmethod
    def of_call(cls, data, weight, _bias, stride, pad, dilation, transposed, _output_padding, groups, result):
        """The arguments and the result of aten::convolution. None where no forward convolution has these sizes."""
        rank = len(weight) - 2
        axes = [[of[min(i, len(of) - 1)] for i in range(rank)] for of in (stride, dilation, pad)]
        source, target = (result, data) if transposed else (data, result)
        parts = [list(source[2:]), list(weight[2:]), *axes]
        if rank == 1:  # a signal is an image of height 1
            parts = [[usual] + part for usual, part in zip((1, 1, 1, 1, 0), parts)]
        one = cls("conv_bwd_data" if transposed else "conv_fwd", source[0], source[1], target[1], groups, *map(tuple, parts))
        return one if one.outputs()[-rank:] == tuple(target[2:]) else None

    @classmethod
    def parse(cls, text):
        op, image, filters, *rest = text.split(":")
        (n, c, *image), (k, *filters) = ([int(size) for size in sizes.split("x")] for sizes in (image, filters))
        fields = dict(one.split("=") for one in rest)
        axes = [fields.get(name, str(int(name != "pad"))).split("x") for name in AXES]
        axes = [tuple(int(one[i % len(one)]) for i in range(len(image))) for one in axes]
        return cls(op, n, c, k, int(fields.get("g", 1)), tuple(image), tuple(filters), *axes)

    def text(self, dtype=""):
        def joined(*sizes):
            return "x".join(map(str, sizes))
        text = f"{self.op}:{joined(self.n, self.c, *self.image)}:{joined(self.k, *self.filter)}"
        if dtype:
            text += f":{dtype}:{'ndhwgc' if len(self.image) == 3 else 'nhwgc'}"
        for name in AXES:
            numbers = getattr(self, name)
            if any(number != (name != "pad") for number in numbers):
                text += f":{name}={joined(*(numbers[:1] if len(set(numbers)) == 1 else numbers))}"
        return text + (f":g={self.g}" if self.g > 1 else "")

    def outputs(self):
        return tuple((size + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
                     for size, taps, stride, dilation, pad in zip(*self[5:]))

    def flop(self):
        return 2 * self.n * self.k * math.prod(self.outputs()) * self.c // self.g * math.prod(self.filter)

    def bytes(self):
        """Of the operands in 16 bits."""
        return 2 * (self.n * self.c * math.prod(self.image) + self.k * self.c // self.g * math.prod(self.filter) +
                    self.n * self.k * math.prod(self.outputs()))

    def key(self):
        return (self.c, self.k, self.g) + (1,) * (3 - len(self.filter)) + self.filter

    def kind(self):
        """The first kind that applies."""
        if len(self.image) == 3:
            return "three_d"
        if self.g > 1:
            return "depthwise" if self.g == self.c else "grouped"
        if math.prod(self.filter) > 1 and self.filter == self.stride and not any(self.pad):
            return "patches"
        if math.prod(self.filter) == math.prod(self.image) == 1:
            return "squeeze"
        if self.c <= 4:
            return "stem"
        if math.prod(self.filter) == 1:
            return "pointwise"
        return "signal" if self.image[0] == self.filter[0] == 1 else "dense"


KINDS = ("dense", "pointwise", "squeeze", "grouped", "depthwise", "patches", "stem", "signal", "three_d")


# ---- networks. A shape of an argument is a tuple (floats), ["ids", ...] (integers) or a dict of keyword arguments.

# Patterns of names. Networks with the same layers are dropped later.
TIMM = """bat_resnext26ts botnet26t_256 caformer_[sb]* convformer_[sm]* coat_* coatnet_[0123]*_224 coatnet_nano_rw_224
coatnext* convit_* convmixer_* convnext_* convnextv2_* cpubone_* crossvit_15_dagger_240 cs3* csatv2* cspnext_* csp[dr]* darknet* davit_*
deit3_base_patch16_224 densenet264d densenetblur* dla* dm_nfnet_f[036] dpn* eca_* ecaresnet* edgenext_* efficientformer*
efficientnet_b8 efficientnet_b0_g* efficientnet_b3_g8_gn efficientnet_*pruned efficientnet_[ehlx]* efficientnetv2_rw_*
efficientnetv2_xl efficientvim_m? efficientvit_* ese_* eva*224 eva02_large_patch14_448 fasternet_* fastvit_* fbnet* flexivit_base
focalnet_* gcresne* gcvit_* gernet_* ghostnet* halo* hardcorenas_* hgnet* hiera_base_224 hrnet_* iformer_? inception_* lambda_*
lcnet* legacy_senet154 levit_conv_* lowformer_* mambaout_* maxvit_*_tf_224 maxvit_*_rw_256 maxxvit* mixer_b* mixnet_* tf_mixnet_l
mobilenet_edgetpu* mobilenetv1* mobilenetv2_* mobilenetv3_*50* mobilenetv4_* mobilenetv5_* mobileone_* mobilevit* mvitv2_*
nasnetalarge pnasnet5large nest_*_jx nextvit_* nf_* nfnet_[fl][0246] pit_*_224 poolformer_* pvt_v2_* rdnet_* regnetv_* regnety_[16]*
regnety_2560 regnetz_* repghostnet_* repvgg_* repvit_* res2ne* resmlp_12_224 resnest* resnet*t resnet*d resnet*s resnet51q
resnet50x*_clip resnetblur50 resnetrs* resnetv2_* resnext26ts resnext50d* resnext101_32x[13]* rexnet* sam2_hiera_* samvit_* selecsls*
semnasnet_* senet154 sequencer2d_s seresne* sehalonet33ts shvit_* skres* spnasnet_100 starnet_* swiftformer_* swin_large_patch4*384
swinv2_cr_small_224 tf_efficientnet_b[0-8] tf_efficientnet_e? tf_efficientnetv2_* tf_mobilenetv3_*minimal* tiny_vit_*
tinynet_* tnt_* tresnet_* twins_* visformer_* vit_base_patch*clip_224 vit_*dinov2 vit_*_siglip_224 vit_*_siglip_384 vit_*resnet*
vit_*r26* vit_base_r50* vit_tiny_r_s16_p8* vit_so400m* vitamin_*_224 volo_d[135]_224 vovnet* wide_resnet50_2 xception* legacy_xception
xcit_*_224"""

WHISPER = {"encoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
PLAIN_DETR = {"use_pretrained_backbone": False}
SEGFORMER = [([32, 64, 160, 256], [2, 2, 2, 2], 256), ([64, 128, 320, 512], [2, 2, 2, 2], 256), ([64, 128, 320, 512], [3, 4, 18, 3], 768),
             ([64, 128, 320, 512], [3, 6, 40, 3], 768)]
HUGGING_FACE = [  # names, shape, and if needed ending of the class, overrides of the config, part to run
    ("Wav2Vec2 Wav2Vec2Conformer Hubert WavLM UniSpeechSat SEW SEWD Data2VecAudio", (1, 160000)),
    ("Wav2Vec2", (1, 160000), "Model", {"hidden_size": 1024, "feat_extract_norm": "layer", "num_attention_heads": 16}),
    *(("Whisper", (1, mels, 3000), "Model", {"d_model": width, "num_mel_bins": mels, **WHISPER}, "encoder")
      for width, mels in ((384, 80), (512, 80), (768, 80), (1024, 80), (1280, 80), (1280, 128))),
    ("Moonshine", (1, 160000), "Model", {}, "encoder"), ("Speech2Text", (1, 1000, 80), "Model", {}, "encoder"),
    ("Encodec Mimi", (1, 1, 240000)), ("Dac", (1, 1, 320000)), ("SpeechT5HifiGan FastSpeech2ConformerHifiGan", (1, 400, 80), ""),
    ("Encodec", (1, 2, 480000), "Model", {"sampling_rate": 48000, "audio_channels": 2, "normalize": False}),
    ("UnivNet", {"input_features": (1, 400, 100), "noise_sequence": (1, 400, 64)}), ("AST", (1, 1024, 128)),
    ("Wav2Vec2Bert", (1, 500, 160)), ("ParakeetEncoder", (1, 1000, 80), ""), ("ClapAudio", (1, 1, 1001, 64)),
    ("ConvBert SqueezeBert Canine Mamba Mamba2 FalconMamba", ["ids", 1, 512]),
    *(("Segformer", (1, 3, 512, 512), "ForSemanticSegmentation", {"hidden_sizes": widths, "depths": depths, "decoder_hidden_size": decoder})
      for widths, depths, decoder in SEGFORMER),
    ("Detr ConditionalDetr TableTransformer", (1, 3, 800, 1066), "Model", PLAIN_DETR), ("DeformableDetr DabDetr", (1, 3, 800, 1066)),
    ("RTDetr", (1, 3, 640, 640), "ForObjectDetection"), ("Mask2Former", (1, 3, 384, 384)), ("MaskFormer", (1, 3, 512, 512)),
    ("Sam", (1, 3, 1024, 1024), "Model", {}, "vision_encoder"), ("Sam2Vision", (1, 3, 1024, 1024)), ("Yolos", (1, 3, 512, 864)),
    ("UperNet", (1, 3, 512, 512), "ForSemanticSegmentation"), ("DPT", (1, 3, 384, 384), "ForDepthEstimation"),
    ("GLPN", (1, 3, 480, 640), "ForDepthEstimation"), ("DepthAnything", (1, 3, 518, 518), "ForDepthEstimation"),
    ("ZoeDepth", (1, 3, 384, 512), "ForDepthEstimation"), ("VitPose", (1, 3, 256, 192), "ForPoseEstimation"),
    ("Swin2SR", (1, 3, 64, 64), "ForImageSuperResolution"), ("Owlv2Vision", (1, 3, 768, 768)),
    ("Bit ConvNextV2 Cvt Data2VecVision Levit MobileNetV1 Pvt RegNet TextNet ViTMAE CLIPVision DonutSwin", (1, 3, 224, 224)),
    ("SiglipVision", (1, 3, 384, 384), "Model",
     {"hidden_size": 1152, "image_size": 384, "patch_size": 14, "num_attention_heads": 16}),
    ("Dinov2", (1, 3, 518, 518), "Model", {"hidden_size": 384, "image_size": 518, "num_attention_heads": 6}),
    ("VideoMAE", (1, 16, 3, 224, 224)), ("Vivit", (1, 32, 3, 224, 224)), ("Timesformer", (1, 8, 3, 224, 224)),
]

SD = {"cross_attention_dim": 768, "sample_size": 64}
SDXL = {"block_out_channels": (320, 640, 1280), "down_block_types": ("DownBlock2D",) + 2 * ("CrossAttnDownBlock2D",), "sample_size": 128,
        "up_block_types": 2 * ("CrossAttnUpBlock2D",) + ("UpBlock2D",), "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20), "cross_attention_dim": 2048, "use_linear_projection": True, "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816}
VAE = {"block_out_channels": (128, 256, 512, 512), "down_block_types": 4 * ("DownEncoderBlock2D",),
       "up_block_types": 4 * ("UpDecoderBlock2D",), "layers_per_block": 2, "latent_channels": 4}
DDPM = {"block_out_channels": (128, 128, 256, 256, 512, 512), "layers_per_block": 2, "sample_size": 256,
        "down_block_types": 4 * ("DownBlock2D",) + ("AttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "AttnUpBlock2D") + 4 * ("UpBlock2D",)}
STEP, TEXT = (1,), (1, 77, 768)
SDXL_ADDED = {"added_cond_kwargs": {"text_embeds": (1, 1280), "time_ids": (1, 6)}}
DIFFUSERS = [  # class, config, shapes
    ("UNet2DConditionModel", SD, ((1, 4, 64, 64), STEP, TEXT)),
    ("UNet2DConditionModel", SDXL, ((1, 4, 128, 128), STEP, (1, 77, 2048), SDXL_ADDED)),
    ("UNet2DModel", DDPM, ((1, 3, 256, 256), STEP)), ("UNet2DModel", {**DDPM, "block_out_channels": (128, 256, 256, 256, 384, 512),
                                                                       "sample_size": 64}, ((1, 3, 64, 64), STEP)),
    ("ControlNetModel", {"cross_attention_dim": 768}, ((1, 4, 64, 64), STEP, TEXT, (1, 3, 512, 512))),
    *(("AutoencoderKL", VAE, ((1, 3, size, size),)) for size in (512, 1024)),
    ("AutoencoderKL", {**VAE, "latent_channels": 16}, ((1, 3, 1024, 1024),)), ("AutoencoderTiny", {}, ((1, 3, 512, 512),)),
    ("VQModel", {**VAE, "block_out_channels": (128, 256, 512), "down_block_types": 3 * ("DownEncoderBlock2D",),
                 "up_block_types": 3 * ("UpDecoderBlock2D",), "latent_channels": 3}, ((1, 3, 256, 256),)),
    ("AutoencoderDC", {}, ((1, 3, 512, 512),)),
    ("UNet3DConditionModel", {}, ((1, 4, 16, 32, 32), STEP, (1, 77, 1024))),
    ("UNetSpatioTemporalConditionModel", {}, ((1, 14, 8, 72, 128), STEP, (1, 1, 1024), {"added_time_ids": (1, 3)})),
    ("AutoencoderKLTemporalDecoder", VAE | {"up_block_types": None}, ((14, 3, 256, 256), {"num_frames": 14})),
    ("AutoencoderKLCogVideoX", {}, ((1, 3, 9, 240, 360),)), ("AutoencoderKLWan", {}, ((1, 3, 9, 240, 416),)),
    ("AutoencoderKLHunyuanVideo", {}, ((1, 3, 17, 256, 256),)), ("AutoencoderKLLTXVideo", {}, ((1, 3, 17, 256, 256),)),
    ("AutoencoderKLMochi", {}, ((1, 3, 13, 240, 424),)),
]

CHANNELS = {"in_channels": 1, "out_channels": 3}  # of classes that take them
MONAI = [  # class, arguments, shape
    ("UNet", {"spatial_dims": 3, "channels": (16, 32, 64, 128, 256), "strides": (2, 2, 2, 2), "num_res_units": 2}, 96),
    ("UNet", {"spatial_dims": 3, "channels": (32, 64, 128, 256, 512), "strides": (2, 2, 2, 2)}, 128),
    ("BasicUNet", {"spatial_dims": 3}, 96), ("BasicUNet", {"spatial_dims": 2, "features": (64, 128, 256, 512, 1024, 64)}, 512),
    ("BasicUNetPlusPlus", {"spatial_dims": 3}, 96), ("SegResNet", {"init_filters": 16, "in_channels": 4}, 128),
    ("SegResNet", {"init_filters": 32}, 96), ("SegResNetDS", {"spatial_dims": 3}, 128), ("VNet", {}, 128),
    ("AttentionUnet", {"spatial_dims": 3, "channels": (32, 64, 128, 256), "strides": (2, 2, 2)}, 96),
    ("DynUNet", {"spatial_dims": 3, "kernel_size": [3] * 6, "strides": [1] + [2] * 5, "upsample_kernel_size": [2] * 5}, 128),
    ("DynUNet", {"spatial_dims": 3, "kernel_size": [[1, 3, 3]] + [3] * 5, "strides": [1, [1, 2, 2], 2, 2, 2, 2],
                 "upsample_kernel_size": [[1, 2, 2], 2, 2, 2, 2]}, 96),
    ("DynUNet", {"spatial_dims": 2, "kernel_size": [3] * 7, "strides": [1] + [2] * 6, "upsample_kernel_size": [2] * 6}, 512),
    ("SwinUNETR", {"feature_size": 48}, 96), ("UNETR", {"img_size": 96}, 96), ("DenseNet121", {"spatial_dims": 3}, 96),
    *((name, {"spatial_dims": 3, "n_input_channels": 1}, 96) for name in ("resnet18", "resnet50")),
    ("SEResNet50", {"spatial_dims": 3, "in_channels": 1}, 96), ("EfficientNetBN", {"model_name": "efficientnet-b0", "spatial_dims": 3}, 96),
    ("HighResNet", {}, 96), ("RegUNet", {"spatial_dims": 3, "num_channel_initial": 32, "depth": 4}, 128),
]


def detection(model):
    """Runs a detector of torchvision without its choice of boxes: 1,000 regions and 100 masks per image."""
    import torch
    model.eval()

    def forward(image):
        features = list(model.backbone(image).values())
        if hasattr(model, "head"):
            return model.head(features)
        model.rpn.head(features)
        heads, channels = model.roi_heads, features[0].shape[1]
        heads.box_head(torch.empty(1000, channels, 7, 7))
        for kind in ("mask", "keypoint"):
            if getattr(heads, kind + "_head", None) is not None:
                getattr(heads, kind + "_predictor")(getattr(heads, kind + "_head")(torch.empty(100, channels, 14, 14)))
    return forward


def of_torchvision():
    import torchvision
    models = torchvision.models
    sizes = {"inception_v3": 299, "efficientnet_b1": 240, "efficientnet_b2": 288, "efficientnet_b3": 300, "efficientnet_b4": 380,
             "efficientnet_b5": 456, "efficientnet_b6": 528, "efficientnet_b7": 600, "efficientnet_v2_s": 384, "efficientnet_v2_m": 480,
             "efficientnet_v2_l": 480, "swin_v2_t": 256, "swin_v2_s": 256, "swin_v2_b": 256, "ssd300_vgg16": 300,
             "ssdlite320_mobilenet_v3_large": 320}
    plain, no_backbone = {"weights": None}, {"weights": None, "weights_backbone": None}
    for module, arguments, usual in ((models, plain, (224, 224)), (models.segmentation, no_backbone, (520, 520)),
                                     (models.detection, no_backbone, (800, 1088)), (models.optical_flow, plain, None)):
        for name in models.list_models(module=module):
            size = (sizes[name],) * 2 if name in sizes else usual
            shapes = ((1, 3, *size),) if size else ((1, 3, 520, 960),) * 2
            wrap = detection if module is models.detection else lambda model: model
            yield name, lambda name=name, wrap=wrap, arguments=arguments: wrap(models.get_model(name, **arguments)), shapes
    for name in models.list_models(module=models.video):
        size = 224 if name.startswith(("mvit", "swin", "s3d")) else 112
        yield name, lambda name=name: models.get_model(name, weights=None), ((1, 3, 16, size, size),)


def of_timm():
    import timm
    for name in dict.fromkeys(name for pattern in TIMM.split() for name in timm.list_models(pattern)):
        yield name, lambda name=name: timm.create_model(name), lambda model: ((1, *model.pretrained_cfg["input_size"]),)


def of_transformers():
    import transformers
    for names, shape, *more in HUGGING_FACE:
        ending, changes, part = more + ["Model", {}, None][len(more):]
        for name in names.split():
            def build(name=name, ending=ending, changes=changes, part=part):
                model = getattr(transformers, name + ending)(getattr(transformers, name + "Config")(**changes))
                return getattr(model, part) if part else model
            yield " ".join([name, *(str(value).replace(",", "") for value in list(changes.values())[:2])]), build, (shape,)


def of_diffusers():
    import diffusers
    for at, (name, config, shapes) in enumerate(DIFFUSERS):
        config = {key: value for key, value in config.items() if value is not None}
        yield f"{name} {at}", lambda name=name, config=config: getattr(diffusers, name)(**config), shapes


def of_monai():
    import monai
    for at, (name, arguments, size) in enumerate(MONAI):
        def build(name=name, arguments=arguments):
            of = getattr(monai.networks.nets, name)
            channels = {key: value for key, value in CHANNELS.items() if key in inspect.signature(of).parameters}
            return of(**channels | arguments)
        shape = (1, arguments.get("in_channels", 1)) + (size,) * arguments.get("spatial_dims", 3)
        yield f"{name} {at}", build, (shape,)


def of_segmentation_models_pytorch():
    import segmentation_models_pytorch as smp
    for encoder in ("resnet34", "efficientnet-b4", "mobilenet_v2", "se_resnext50_32x4d", "vgg16_bn", "mit_b2", "timm-regnety_032"):
        for name in ("Unet", "UnetPlusPlus", "FPN", "PSPNet", "PAN", "Linknet", "MAnet", "DeepLabV3Plus", "UPerNet"):
            if encoder in ("resnet34", "efficientnet-b4") or name in ("Unet", "FPN", "UPerNet"):
                yield (f"{name} {encoder}", lambda name=name, encoder=encoder: getattr(smp, name)(encoder, encoder_weights=None),
                       ((1, 3, 512, 512),))


def of_ultralytics():
    os.environ.setdefault("YOLO_CONFIG_DIR", "/tmp")
    from ultralytics.nn import tasks
    names = [f"{family}{size}{task}" for family in ("yolov5", "yolov8", "yolo11", "yolo12", "yolo26") for size in "nsmlx"
             for task in ("", "-seg") if family + task != "yolov5-seg"]
    names += """yolov3 yolov3-tiny yolov6n yolov6m yolov8n-p2 yolov8x-p6 yolov8s-ghost yolov8m-pose yolov8l-worldv2 yolov9t yolov9s yolov9m
      yolov9c yolov9e yolov10n yolov10s yolov10m yolov10b yolov10l yolov10x rtdetr-l rtdetr-x""".split()
    for name in names:
        of = (tasks.SegmentationModel if name.endswith("-seg") else tasks.PoseModel if name.endswith("-pose") else
              tasks.RTDETRDetectionModel if name.startswith("rtdetr") else tasks.WorldModel if "world" in name else tasks.DetectionModel)

        def build(name=name, of=of):
            model = of(name + ".yaml", verbose=False)
            if not name.startswith("rtdetr"):
                model.model[-1].train = lambda mode: None  # eval() leaves the head in training: it computes no boxes
            return model
        yield name, build, ((1, 3, 640, 640),)


def of_spandrel():
    import spandrel.architectures as all_of
    modules = """ESRGAN.__arch.RRDB:RRDBNet Compact.__arch.SRVGG:SRVGGNetCompact NAFNet.__arch.NAFNet_arch:NAFNet RCAN.__arch.rcan_arch:RCAN
      DRUNet.__arch.network_unet:DRUNet DnCNN.__arch.network_dncnn:DnCNN SCUNet.__arch.SCUNet:SCUNet OmniSR.__arch.OmniSR:OmniSR
      PLKSR.__arch.PLKSR:PLKSR Uformer.__arch.Uformer:Uformer KBNet.__arch.kbnet_s:KBNet_s FBCNN.__arch.FBCNN:FBCNN
      RetinexFormer.__arch.retinexformer_arch:RetinexFormer
      RealCUGAN.__arch.upcunet_v3:UpCunet2x MixDehazeNet.__arch.MixDehazeNet:MixDehazeNet"""
    for module, name in (one.split(":") for one in modules.split()):
        def build(module=module, name=name):
            return getattr(importlib.import_module(f"{all_of.__name__}.{module}"), name)()
        yield name, build, ((1, 1 if name in ("DRUNet", "DnCNN") else 3, 256, 256),)


# ---- list

def run(build, shapes):
    """The calls of each convolution in one forward pass."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            if function is torch.ops.aten.convolution.default:
                data, weight, *rest = arguments
                self.calls[Conv.of_call(data.shape, weight.shape, *rest, result.shape)] += 1
            return result

    def tensors(shape):
        if isinstance(shape, dict):
            return {name: tensors(one) for name, one in shape.items()}
        if isinstance(shape, int):
            return shape
        return torch.zeros(shape[1:], dtype=torch.int64) if isinstance(shape, list) else torch.zeros(shape)

    def forward(model):
        if isinstance(model, torch.nn.Module):
            model.eval()
        recorder, given = Recorder(), [tensors(one) for one in (shapes(model) if callable(shapes) else shapes)]
        recorder.calls = collections.Counter()
        with torch.no_grad(), recorder:
            model(*(one for one in given if not isinstance(one, dict)),
                  **{name: value for one in given if isinstance(one, dict) for name, value in one.items()})
        return recorder.calls

    def on_meta():
        with torch.device("meta"):
            return forward(build())

    def run_on_meta():  # constructors that read values
        model = build().to("meta")
        with torch.device("meta"):
            return forward(model)

    def fake():  # models that read constants
        with FakeTensorMode():
            return forward(build())

    errors = []
    for attempt in (on_meta, run_on_meta, fake):
        try:
            return attempt()
        except Exception as error:  # of any library
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            if not any(text in other for other in errors):
                errors.append(f"{attempt.__name__}: {text}")
    raise RuntimeError("; ".join(errors))


def list_convs(options):
    import torch
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    known, failed, rows = {}, 0, 0
    with open(options.out, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("network", "calls", "problem"))
        for source in (of_torchvision, of_timm, of_transformers, of_diffusers, of_monai, of_segmentation_models_pytorch, of_ultralytics,
                       of_spandrel):
            package = source.__name__.removeprefix("of_")
            try:
                networks = list(source())
            except ImportError as error:
                print(f"{package}: is left out: {error}", file=sys.stderr)
                continue
            for name, build, shapes in networks:
                name = f"{package}/{name}"
                if not fnmatch.fnmatch(name, options.only):
                    continue
                try:
                    calls = run(build, shapes)
                except RuntimeError as error:
                    failed += 1
                    print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
                    continue
                if skipped := calls.pop(None, 0):
                    print(f"{name}: {skipped} calls are no gradient of a forward convolution", file=sys.stderr)
                equal = known.setdefault(frozenset(calls.items()), name) if calls else None
                if equal != name:
                    print(f"{name}: {f'has the layers of {equal}' if calls else 'has no convolution'}", file=sys.stderr)
                    continue
                table.writerows((name, number, one.text()) for one, number in calls.items())
                file.flush()
                rows += len(calls)
    print(f"{len(known)} networks, {rows} layers; {failed} networks failed")


# ---- draw

def taken_keys(folder):
    """Keys of problems that were measured."""
    import pyarrow.parquet
    keys = set()
    for path in glob.glob(os.path.join(folder, "conv_*_h200*.parquet")):
        keys.update(zip(*pyarrow.parquet.read_table(path, columns=["c", "k", "g", "z", "y", "x"]).to_pydict().values()))
    return keys


def hash_share(key):
    return int(hashlib.sha256("x".join(map(str, key)).encode()).hexdigest()[:8], 16) / 2**32


def at_batches(layer, op):
    """The layer's problems within the limits."""
    all_of = (layer._replace(op=op, n=layer.n * batch) for batch in (BATCHES_3D if layer.kind() == "three_d" else BATCHES))
    return [one for one in all_of if one.flop() <= MAX_FLOP and one.bytes() <= MAX_BYTES]


def draw(options):
    networks = collections.defaultdict(list)  # name: (layer, calls)
    with open(options.layers, newline="") as file:
        for row in csv.DictReader(file):
            networks[row["network"]].append((Conv.parse(row["problem"]), int(row["calls"])))
    layers = {layer for of in networks.values() for layer, _ in of}
    new = {layer.key() for layer in layers} - taken_keys(options.data)
    held_out = {key for key in new if hash_share(key) < HELD_OUT_SHARE}
    print(f"{len(networks)} networks, {len(layers)} layers; {len(new)} new keys, {len(held_out)} of them held out")
    os.makedirs(options.out, exist_ok=True)
    tables = {}
    for op in OPS:
        for part, of in (("held_out", held_out_problems(op, networks, held_out)),
                         ("train", training_problems(op, networks, new - held_out))):
            path = os.path.join(options.out, f"{op}.{part}.txt")
            with open(path, "w") as file:
                file.writelines(f"{one.text(options.dtype)}{f':weight={weight}' if weight > 1 else ''}\n" for one, weight in of.items())
            tables[f"{op}.{part}"] = collections.Counter(one.kind() for one in of) + collections.Counter(all=len(of))
    print(f"{'list':26}" + "".join(f"{kind:>10}" for kind in (*KINDS, "all")))
    for name, counts in tables.items():
        print(f"{name:26}" + "".join(f"{counts[kind]:>10}" for kind in (*KINDS, "all")))


def held_out_problems(op, networks, keys):
    """Each network is as likely as any other, a layer as likely as its calls. Rare kinds replace the last problems of others."""
    choice = random.Random(f"held out {op}")
    layers = [[(layer, calls) for layer, calls in of if layer.key() in keys and at_batches(layer, op)] for of in networks.values()]
    drawn, counts = {}, collections.Counter()

    def add_until(enough, kinds):
        of_kinds = [[one for one in of if one[0].kind() in kinds] for of in layers]
        of_kinds = [of for of in of_kinds if of]
        for _ in range(100 * HELD_OUT_PROBLEMS if of_kinds else 0):
            if enough():
                return
            of = choice.choice(of_kinds)
            layer, calls = choice.choices(of, [calls for _, calls in of])[0]
            problem = choice.choice(at_batches(layer, op))
            if problem not in drawn:
                drawn[problem] = calls
                counts[problem.kind()] += 1

    add_until(lambda: len(drawn) == HELD_OUT_PROBLEMS, KINDS)
    for kind in KINDS:
        add_until(lambda kind=kind: counts[kind] >= HELD_OUT_OF_KIND, (kind,))
    for problem in reversed(list(drawn)):
        if len(drawn) > HELD_OUT_PROBLEMS and counts[problem.kind()] > HELD_OUT_OF_KIND:
            counts[problem.kind()] -= 1
            del drawn[problem]
    return drawn


def training_problems(op, networks, keys):
    """Of each key the layer with most calls, at one batch. Its weight is the calls in the network that calls it most."""
    choice = random.Random(f"train {op}")
    total, most = collections.Counter(), collections.Counter()
    for of in networks.values():
        for layer, calls in of:
            if layer.key() in keys and at_batches(layer, op):
                total[layer] += calls
                most[layer] = max(most[layer], calls)
    drawn, seen, counts = {}, set(), collections.Counter()
    for layer in sorted(total, key=lambda layer: (-total[layer], layer.text())):
        if layer.key() not in seen and counts[layer.kind()] < TRAINING_KEYS.get(layer.kind(), len(keys)):
            seen.add(layer.key())
            counts[layer.kind()] += 1
            drawn[choice.choice(at_batches(layer, op))] = most[layer]
    return drawn


LAYERS_HEAD = """# Lists convolutions of 1,048 public networks for the problem set `conv_layers`: of each number of channels and groups and size
# of a filter that training may use, the layer with most calls, at one of the batches 1 to 256. The weight counts its calls
# in one pass of each network that has it. Made by `data/network_convs.py layers`.
"""


def make_layers(options):
    best = {}  # calls and line of a key
    for name in sorted(glob.glob(os.path.join(options.lists, "conv_fwd.train*.txt"))):
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                text, _, calls = line.strip().partition(":weight=")
                text = ":".join(field for field in text.split(":") if field not in ("bf16", "nhwgc", "ndhwgc"))
                key, calls = Conv.parse(text).key(), int(calls or 1)
                if key not in best or (calls, text) > best[key]:
                    best[key] = calls, text
    with open(options.out, "w", encoding="utf-8") as out:
        out.write(LAYERS_HEAD)
        for calls, text in sorted(best.values(), key=lambda one: (-one[0], one[1])):
            out.write(f"{text}:weight={calls}\n" if calls > 1 else f"{text}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("list", help="lists the convolutions of networks")
    verb.add_argument("--out", required=True, help="CSV to write")
    verb.add_argument("--only", default="*", help="pattern of networks, such as 'timm/resnet*'")
    verb.set_defaults(run=list_convs)
    verb = verbs.add_parser("draw", help="draws problem lists")
    verb.add_argument("--layers", required=True, help="CSV that `list` wrote")
    verb.add_argument("--data", required=True, help="folder of the measured problems")
    verb.add_argument("--out", required=True, help="folder of the lists")
    verb.add_argument("--dtype", default="bf16", help="element type to write; '' writes none, then readers decide")
    verb.set_defaults(run=draw)
    verb = verbs.add_parser("layers", help="makes the problem set `conv_layers`")
    verb.add_argument("--lists", required=True, help="folder of the lists that `draw` wrote")
    verb.add_argument("--out", required=True, help="file to write")
    verb.set_defaults(run=make_layers)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
