/* A cuDNN that executes nothing. A plan is a stand_in_plan; its config and its engine are the plan itself. */
#include <stdlib.h>
#include <string.h>

#include "stand_in_blas.h"

enum { kExecuted = 2002 /* a status that the caller has to get */, kRefused = 3000 };
enum {
  kPlanJson = 405,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kConfigEngine = 300,
  kConfigKnobs = 302,
  kEngineNotes = 1303
};
enum { kEngineIndex = 1301, kChoiceType = 600, kChoiceValue = 601 };
enum { kInt64 = 3, kKnobType = 9, kDescriptor = 15, kNote = 11, kCharacter = 24 };
enum { kStandInDescriptors = 100, kWorkspaceKnob = 25, kVersion = 91900 };

static const void* made[kStandInDescriptors]; /* what a descriptor of the caller refers to */

static _Atomic long executions;
long stand_in_executions(void) { return executions; }

int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  (void)handle, (void)pack;
  ++executions;
  return plan ? 0 : kExecuted;
}

/* Of variant packs only: the library does not return what they hold. */
int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, int64_t count, const void* values) {
  (void)descriptor, (void)attribute, (void)type, (void)count, (void)values;
  return 0;
}

size_t cudnnGetVersion(void) { return kVersion; }

int cudnnGetStream(void* handle, void** stream) {
  *stream = handle ? ((struct stand_in_handle*)handle)->stream : NULL;
  return 0;
}

int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  for (int i = 0; i < kStandInDescriptors; ++i) {
    if (made[i]) continue;
    made[i] = &made[i];
    *descriptor = &made[i];
    return kind < 0;
  }
  return kRefused; /* some were not destroyed */
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  if (descriptor >= (void*)made && descriptor < (void*)(made + kStandInDescriptors))
    *(const void**)descriptor = NULL;
  return 0;
}

int cudnnBackendGetAttribute(void* descriptor, int attribute, int type, int64_t capacity, int64_t* count,
                             void* values) {
  const int of_caller = descriptor >= (void*)made && descriptor < (void*)(made + kStandInDescriptors);
  const struct stand_in_plan* const plan = of_caller ? *(const void**)descriptor : descriptor;
  if (!plan) return kRefused;
  if (attribute == kPlanJson && type == kCharacter && plan->json) {
    *count = (int64_t)strlen(plan->json) + 1;
    if (capacity >= *count) memcpy(values, plan->json, (size_t)*count);
    return 0;
  }
  if (((attribute == kPlanConfig || attribute == kConfigEngine) && type == kDescriptor && capacity == 1) ||
      (attribute == kConfigKnobs && type == kDescriptor && capacity >= 1)) {
    *count = 1;
    **(const void***)values = plan;
    return 0;
  }
  *count = 1;
  if ((attribute == kEngineIndex || attribute == kChoiceValue) && type == kInt64) {
    *(int64_t*)values = attribute == kEngineIndex ? plan->engine : plan->workspace;
    return 0;
  }
  if (attribute == kChoiceType && type == kKnobType) {
    *(int32_t*)values = kWorkspaceKnob;
    return 0;
  }
  if (attribute == kPlanWorkspace && type == kInt64) {
    *(int64_t*)values = 1 << 20;
    return 0;
  }
  if (attribute == kEngineNotes && type == kNote && capacity >= 1) {
    *count = plan->converts_inputs;
    *(int32_t*)values = 1;
    return 0;
  }
  return kRefused;
}
