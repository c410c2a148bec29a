/* A kernel library of convolutions for tests: plain loops over fp32 in every direction, 2-D and 3-D, channels
 * last. What it computes is written down from the definition, apart from the reference that checks it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kscout/kernel_library.h>

enum { forward, backward_data, backward_weight };

typedef struct behaviour {
  int direction;
  int wrong; /* leaves the last element of the result out */
} behaviour;

static int64_t pixel(int64_t d, int64_t h, int64_t w, const int64_t* sizes) {
  return (d * sizes[1] + h) * sizes[2] + w;
}

static int32_t workspace_bytes(const kscout_kernel* self, const kscout_kernel_shape* shape, uint64_t* bytes,
                               kscout_kernel_message message) {
  (void)self;
  if (!shape->conv || shape->conv->struct_size < sizeof(kscout_conv_shape)) {
    snprintf(message.text, message.size, "the shape is no convolution's");
    return KSCOUT_KERNEL_UNSUPPORTED;
  }
  *bytes = 0;
  return KSCOUT_KERNEL_OK;
}

/* Adds every product of the convolution to the tensor that the direction computes. */
static int32_t run(const kscout_kernel* self, const kscout_kernel_shape* shape,
                   const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)message;
  const behaviour* const how = self->data;
  const kscout_conv_shape* const s = shape->conv;
  const int64_t cg = s->c / s->g, kg = s->k / s->g;
  const int64_t taps = s->filter[0] * s->filter[1] * s->filter[2];
  const int64_t ins = s->in[0] * s->in[1] * s->in[2], outs = s->out[0] * s->out[1] * s->out[2];
  const float* const a = call->a;
  const float* const b = call->b;
  float* const c = call->c;
  const int64_t results = how->direction == forward         ? s->n * outs * s->k
                          : how->direction == backward_data ? s->n * ins * s->c
                                                            : s->k * taps * cg;
  memset(c, 0, (size_t)results * sizeof *c);
  for (int64_t n = 0; n < s->n; ++n)
    for (int64_t od = 0; od < s->out[0]; ++od)
      for (int64_t oh = 0; oh < s->out[1]; ++oh)
        for (int64_t ow = 0; ow < s->out[2]; ++ow)
          for (int64_t z = 0; z < s->filter[0]; ++z)
            for (int64_t y = 0; y < s->filter[1]; ++y)
              for (int64_t x = 0; x < s->filter[2]; ++x) {
                const int64_t id = od * s->stride[0] + z * s->dilation[0] - s->left_pad[0];
                const int64_t ih = oh * s->stride[1] + y * s->dilation[1] - s->left_pad[1];
                const int64_t iw = ow * s->stride[2] + x * s->dilation[2] - s->left_pad[2];
                if (id < 0 || ih < 0 || iw < 0 || id >= s->in[0] || ih >= s->in[1] || iw >= s->in[2])
                  continue;
                const int64_t tap = pixel(z, y, x, s->filter);
                for (int64_t k = 0; k < s->k; ++k)
                  for (int64_t i = 0; i < cg; ++i) {
                    const int64_t in = (n * ins + pixel(id, ih, iw, s->in)) * s->c + k / kg * cg + i;
                    const int64_t wei = (k * taps + tap) * cg + i;
                    const int64_t out = (n * outs + pixel(od, oh, ow, s->out)) * s->k + k;
                    if (how->direction == forward) c[out] += a[in] * b[wei];
                    if (how->direction == backward_data) c[in] += a[out] * b[wei];
                    if (how->direction == backward_weight) c[wei] += a[out] * b[in];
                  }
              }
  if (how->wrong) c[results - 1] += 1;
  return KSCOUT_KERNEL_OK;
}

static int32_t run_crash(const kscout_kernel* self, const kscout_kernel_shape* shape,
                         const kscout_kernel_call* call, kscout_kernel_message message) {
  (void)self, (void)shape, (void)call, (void)message;
  raise(SIGSEGV);
  return KSCOUT_KERNEL_FAILED;
}

static const behaviour fwd = {forward, 0}, data = {backward_data, 0}, weight = {backward_weight, 0},
                       lie = {forward, 1};
#if !defined(TOY_CONV_FWD)
#define TOY_CONV_FWD "toy_conv_fwd"
#endif
static const kscout_kernel kernels[] = {{TOY_CONV_FWD, workspace_bytes, run, &fwd},
                                        {"toy_conv_bwd_data", workspace_bytes, run, &data},
                                        {"toy_conv_bwd_weight", workspace_bytes, run, &weight},
                                        {"toy_conv_lie", workspace_bytes, run, &lie},
                                        {"toy_conv_crash", workspace_bytes, run_crash, &fwd}};

#if !defined(TOY_BACKEND)
#define TOY_BACKEND "cpu"
#endif

const kscout_kernel_library* kscout_kernel_library_get(void) {
  static const kscout_kernel_library library = {.abi = KSCOUT_KERNEL_ABI,
                                                .struct_size = sizeof(kscout_kernel_library),
                                                .backend = TOY_BACKEND,
                                                .open = NULL,
                                                .kernel_count = sizeof kernels / sizeof kernels[0],
                                                .kernel_size = sizeof(kscout_kernel),
                                                .kernels = kernels};
  return &library;
}
