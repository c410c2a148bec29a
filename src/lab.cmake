# What needs Arrow or LightGBM: datasets, training, evaluation, tuning. Linked by the program kscout-lab only.
add_library(kscout_lab STATIC)
target_link_libraries(kscout_lab PUBLIC kscout_sweep kscout_arrow kscout_lightgbm)
# Its products of matrices are vectors of floats.
set_source_files_properties(train/shortlist.cpp PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_UNITY_BUILD_INCLUSION ON)
kscout_stages(kscout_lab "dataset import provider/ck_tile/import provider/miopen/import" "evaluate provider/ck_tile/evaluate" train report tune)

# Pages of `kscout report`: their text, style and code, and the library that draws their plots.
set(_page src/report/page.html src/report/page.css src/report/page.js src/report/plots.js src/report/licenses.txt)
if(KSCOUT_PLOTS_WHEEL)
  set(_library ${CMAKE_CURRENT_BINARY_DIR}/plot_library.js.gz)
  set(_bundle ${CMAKE_CURRENT_SOURCE_DIR}/report/bundle_plots.py)
  add_custom_command(OUTPUT ${_library} COMMAND ${KSCOUT_PLOTS_PYTHON} ${_bundle} ${KSCOUT_PLOTS_WHEEL} ${_library}
                     DEPENDS ${_bundle} COMMENT "Bundling the plot library" VERBATIM)
  list(APPEND _page ${_library})
elseif(EXISTS ${KSCOUT_PLOTS_FILE})
  list(APPEND _page ${KSCOUT_PLOTS_FILE})
endif()
kscout_embed(kscout_lab kReportFiles ${_page})
