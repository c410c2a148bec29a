# What needs Arrow or LightGBM: datasets, training, evaluation, tuning. Linked by the program kscout-lab only.
add_library(kscout_lab STATIC)
target_link_libraries(kscout_lab PUBLIC kscout_sweep kscout_arrow kscout_lightgbm)
# Its products of matrices are vectors of floats.
set_source_files_properties(train/shortlist.cpp PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_UNITY_BUILD_INCLUSION ON)
kscout_stages(kscout_lab "dataset import provider/ck_tile/import provider/miopen/import" "evaluate provider/ck_tile/evaluate" train tune)
