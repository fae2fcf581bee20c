# What unit tests share; unit_test() links it, the linker takes what a test needs.
add_library(test_lib STATIC ${CMAKE_CURRENT_LIST_DIR}/temp_dir.c ${CMAKE_CURRENT_LIST_DIR}/xspace_text.c)
target_link_libraries(test_lib PRIVATE tutti_flags)
