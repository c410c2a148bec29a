# An installed package: find_package(kscout) gives kscout::kscout, pkg-config knows kscout. Nothing installed needs the clone.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS kscout EXPORT kscoutTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kscout DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The programs start each other by looking beside themselves, so they stay in one folder.
install(TARGETS kscout_cli kscout_worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET kscout_cuda)
  install(TARGETS kscout_cuda LIBRARY DESTINATION lib/kscout)  # where backend cuda looks, from bin/ and from the library's folder
endif()
if(TARGET kscout_preload)
  install(TARGETS kscout_preload kscout_preload_core LIBRARY DESTINATION lib/kscout)  # kscout exec searches this folder
endif()
if(KSCOUT_LAB)
  # Arrow and LightGBM are installed too: those of Debian, if any, are of other versions. Without them the program takes those of
  # the active Python (cli/sibling.cpp).
  install(TARGETS kscout_lab_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(TARGET kscout_lab_cli APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../lib/kscout")
  install(FILES ${KSCOUT_ARROW_LIBRARY} ${KSCOUT_PARQUET_LIBRARY} ${KSCOUT_LIGHTGBM_LIBRARY} DESTINATION lib/kscout)
endif()
# Man pages and completion of command lines, by the program that is installed.
set(KSCOUT_MANUAL_FOLDER ${CMAKE_CURRENT_BINARY_DIR}/manual)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DKSCOUT=$<TARGET_FILE:kscout_cli>\" \"-DOUT=${KSCOUT_MANUAL_FOLDER}\"
  -P \"${PROJECT_SOURCE_DIR}/cmake/KscoutManual.cmake\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${KSCOUT_MANUAL_FOLDER}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
install(DIRECTORY ${KSCOUT_MANUAL_FOLDER}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/models)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/kscout)
endif()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE KSCOUT_PC_TO_PREFIX)
configure_file(${CMAKE_CURRENT_LIST_DIR}/kscout.pc.in ${CMAKE_CURRENT_BINARY_DIR}/kscout.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kscout.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT kscoutTargets NAMESPACE kscout:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kscout)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/kscoutTargets.cmake)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kscout)
