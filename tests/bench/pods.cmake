# The program for tests/bench/pods.
add_executable(pods_bench ${CMAKE_CURRENT_LIST_DIR}/pods_bench.c)
target_link_libraries(pods_bench PRIVATE tutti_flags aggregator_pods)
tutti_use(pods_bench PRIVATE jansson)
