# The wheel of ./dev wheel: one extension for every Python from 3.10 on, and all that programs in C++ and on GPUs need. What nanobind
# needs of each Python (its package nanobind-backend) comes along as kscout/_nanobind, out of the folder KSCOUT_NANOBIND_BACKENDS.
set(KSCOUT_NANOBIND_BACKENDS "" CACHE PATH "Folder nanobind_backend with the modules of all Pythons")
if(NOT EXISTS ${KSCOUT_NANOBIND_BACKENDS}/__init__.py)
  message(FATAL_ERROR "KSCOUT_PORTABLE needs KSCOUT_NANOBIND_BACKENDS; ./dev wheel fetches it")
endif()
nanobind_add_module(kscout_core BACKEND_MODULE kscout._nanobind NB_SUPPRESS_WARNINGS ${_sources})
set_target_properties(kscout_core PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} INSTALL_RPATH "$ORIGIN")
target_link_libraries(kscout_core PRIVATE kscout_linked)
kscout_exports(kscout_core PyInit__core)

# The stub is made by importing the module.
file(COPY ${KSCOUT_NANOBIND_BACKENDS}/ DESTINATION ${CMAKE_CURRENT_BINARY_DIR}/kscout/_nanobind)
nanobind_add_stub(kscout_core_stub MODULE _core OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/_core.pyi
                  PYTHON_PATH ${CMAKE_CURRENT_BINARY_DIR} DEPENDS kscout_core)
add_custom_target(python DEPENDS programs kscout kscout_core kscout_core_stub)

# All in one folder: programs look for each other, for the library and for models beside themselves.
set_property(TARGET kscout_cli kscout_worker PROPERTY INSTALL_RPATH "$ORIGIN")
# cuBLASLt and cuDNN: those that PyTorch's wheels brought into the same environment, else the system's.
set(_nvidia "$ORIGIN/../nvidia/cu13/lib;$ORIGIN/../nvidia/cublas/lib;$ORIGIN/../nvidia/cudnn/lib")
set_property(TARGET kscout PROPERTY INSTALL_RPATH "${_nvidia}")
install(TARGETS kscout EXPORT kscoutTargets LIBRARY DESTINATION . NAMELINK_SKIP COMPONENT python)
install(TARGETS kscout_core kscout_preload kscout_preload_core LIBRARY DESTINATION . COMPONENT python)
install(TARGETS kscout_cli kscout_worker RUNTIME DESTINATION . COMPONENT python)
if(TARGET kscout_cuda)
  set_property(TARGET kscout_cuda PROPERTY INSTALL_RPATH "${_nvidia}")
  install(TARGETS kscout_cuda LIBRARY DESTINATION . COMPONENT python)
endif()
if(KSCOUT_LAB)
  # Arrow and LightGBM: the wheels installed beside this package, else those of the active Python (cli/sibling.cpp).
  set_property(TARGET kscout_lab_cli PROPERTY INSTALL_RPATH "$ORIGIN;$ORIGIN/../pyarrow;$ORIGIN/../lightgbm/lib")
  install(TARGETS kscout_lab_cli RUNTIME DESTINATION . COMPONENT python)
endif()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/_core.pyi DESTINATION . COMPONENT python)
install(DIRECTORY ${KSCOUT_NANOBIND_BACKENDS}/ DESTINATION _nanobind COMPONENT python)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION . COMPONENT python)

# For C++: python -m kscout.cmake prints the folder of these files.
include(CMakePackageConfigHelpers)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kscout DESTINATION include COMPONENT python)
install(EXPORT kscoutTargets NAMESPACE kscout:: DESTINATION cmake COMPONENT python)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/kscoutTargets.cmake)\n")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/kscoutConfigVersion.cmake
        DESTINATION cmake COMPONENT python)
