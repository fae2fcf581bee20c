# What unit tests share; unit_test() links it, the linker takes what a test needs.
add_library(test_lib STATIC ${CMAKE_CURRENT_LIST_DIR}/temp_dir.c ${CMAKE_CURRENT_LIST_DIR}/xspace_text.c)
target_link_libraries(test_lib PRIVATE tutti_flags)
# An object, which need not be asked for: it is in each program that links test_lib.
add_library(test_deadline OBJECT ${CMAKE_CURRENT_LIST_DIR}/deadline.c)
target_link_libraries(test_deadline PRIVATE tutti_flags)
target_sources(test_lib INTERFACE $<TARGET_OBJECTS:test_deadline>)

# The main() of programs that hold many tests.
add_library(test_main OBJECT ${CMAKE_CURRENT_LIST_DIR}/test_main.c ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
target_link_libraries(test_main PRIVATE tutti_flags)

# base and net in virtual time, behind their front-door headers. Linked before base and net: the linker then never opens the
# archive members that have the real ones.
set(sim_fronts call.c channel.c fiber.c host.c http.c loop.c sched.c udp.c wire.c)
list(TRANSFORM sim_fronts PREPEND ${CMAKE_SOURCE_DIR}/tests/sim/)
add_library(sim_fronts OBJECT ${sim_fronts})
target_link_libraries(sim_fronts PRIVATE tutti_flags)

# What unit_test(... VIRTUAL) links. ThreadSanitizer is there for threads: its preset has the real base and net.
if(TUTTI_SANITIZE STREQUAL thread)
	add_library(virtual_time OBJECT ${CMAKE_SOURCE_DIR}/tests/lib/virtual_time_real.c)
else()
	add_library(virtual_time OBJECT ${CMAKE_SOURCE_DIR}/tests/lib/virtual_time.c)
	target_sources(virtual_time INTERFACE $<TARGET_OBJECTS:sim_fronts>)
endif()
target_link_libraries(virtual_time PRIVATE tutti_flags)
