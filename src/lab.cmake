# What needs Arrow or LightGBM: datasets, training, evaluation. Linked by the program kscout-lab only.
add_library(kscout_lab STATIC)
target_link_libraries(kscout_lab PUBLIC kscout_static kscout_arrow kscout_lightgbm)
kscout_stages(kscout_lab "dataset import" evaluate train)
