# The program for tests/bench/clock.
add_executable(clock_bench ${CMAKE_CURRENT_LIST_DIR}/clock_bench.c ${clock_worlds})
target_link_libraries(clock_bench PRIVATE agent_clock)
