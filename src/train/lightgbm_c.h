#pragma once
/// \file
/// The functions of LightGBM's C API that this project calls (version 4.7; its wheel carries no header).
/// Every one returns 0 on success; LGBM_GetLastError tells the thread's last failure. Use train/lightgbm.h.
#include <cstdint>

extern "C" {

using LgbmDataset = void*;
using LgbmBooster = void*;

inline constexpr int kLgbmFloat32 = 0;
inline constexpr int kLgbmFloat64 = 1;
inline constexpr int kLgbmInt32 = 2;
inline constexpr int kLgbmPredictNormal = 0;
inline constexpr int kLgbmImportanceSplit = 0;

const char* LGBM_GetLastError();
int LGBM_SetMaxThreads(int threads);
int LGBM_RegisterLogCallback(void (*callback)(const char*));

int LGBM_DatasetCreateFromMat(const void* data, int data_type, std::int32_t rows, std::int32_t columns,
                              int is_row_major, const char* parameters, LgbmDataset reference,
                              LgbmDataset* out);
int LGBM_DatasetGetSubset(LgbmDataset handle, const std::int32_t* rows, std::int32_t count,
                          const char* parameters, LgbmDataset* out);
int LGBM_DatasetSetFeatureNames(LgbmDataset handle, const char** names, int count);
int LGBM_DatasetSetField(LgbmDataset handle, const char* field, const void* data, int count, int data_type);
int LGBM_DatasetFree(LgbmDataset handle);

int LGBM_BoosterCreate(LgbmDataset train, const char* parameters, LgbmBooster* out);
int LGBM_BoosterLoadModelFromString(const char* text, int* out_iterations, LgbmBooster* out);
int LGBM_BoosterMerge(LgbmBooster handle, LgbmBooster other);
int LGBM_BoosterAddValidData(LgbmBooster handle, LgbmDataset valid);
int LGBM_BoosterUpdateOneIter(LgbmBooster handle, int* is_finished);
int LGBM_BoosterGetNumPredict(LgbmBooster handle, int data_index, std::int64_t* out_length);
int LGBM_BoosterGetPredict(LgbmBooster handle, int data_index, std::int64_t* out_length, double* out);
int LGBM_BoosterSaveModelToString(LgbmBooster handle, int start_iteration, int iterations,
                                  int importance_type, std::int64_t buffer_length, std::int64_t* out_length,
                                  char* out);
int LGBM_BoosterPredictForMat(LgbmBooster handle, const void* data, int data_type, std::int32_t rows,
                              std::int32_t columns, int is_row_major, int predict_type, int start_iteration,
                              int iterations, const char* parameters, std::int64_t* out_length, double* out);
int LGBM_BoosterFeatureImportance(LgbmBooster handle, int iterations, int importance_type, double* out);
int LGBM_BoosterFree(LgbmBooster handle);

}  // extern "C"
