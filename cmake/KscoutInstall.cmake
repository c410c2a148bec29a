# An installed package: find_package(kscout) gives kscout::kscout.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS kscout EXPORT kscoutTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kscout DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS kscout_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT kscoutTargets NAMESPACE kscout:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kscout)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/kscoutTargets.cmake)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kscout)
