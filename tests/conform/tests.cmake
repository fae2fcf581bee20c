# One suite per table, run for every back end.
function(store_test name)
	add_executable(conform_${name} conform/${name}_test.c conform/store_conform.c)
	target_link_libraries(conform_${name} PRIVATE tutti_flags test_lib storage base)
	add_test(NAME conform/${name} COMMAND conform_${name})
	set_tests_properties(conform/${name} PROPERTIES LABELS "unit;room:storage")
endfunction()

store_test(store_file)
store_test(store_mem)
store_test(store_fault)

# Stores behind HTTP, each against a server. A strict one of our own:
add_executable(conform_store_cloud conform/store_cloud_test.c conform/store_conform.c)
target_link_libraries(conform_store_cloud PRIVATE tutti_flags test_lib storage base)
function(cloud_test name script)
	add_test(NAME conform/store_${name}
		COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/conform/${script}.py $<TARGET_FILE:conform_store_cloud> ${ARGN})
	set_tests_properties(conform/store_${name} PROPERTIES LABELS "unit;room:storage")
endfunction()
cloud_test(s3 store_s3)
set_tests_properties(conform/store_s3 PROPERTIES COST 20)
cloud_test(s3_keys store_s3_keys)
# Real ones, of tests/servers.sh.
if(NOT TUTTI_SANITIZE STREQUAL thread)
	cloud_test(versitygw store_real versitygw)
	cloud_test(gcs store_real gcs)
	cloud_test(azurite store_real azurite)
	cloud_test(gs_keys store_gs_keys)
	cloud_test(az_keys store_az_keys)
	foreach(name versitygw gcs azurite gs_keys az_keys)
		set_tests_properties(conform/store_${name} PROPERTIES LABELS servers)
	endforeach()
endif()
# What tests/stores.sh runs beside the suite.
add_executable(conform_store_failures EXCLUDE_FROM_ALL conform/store_failures_test.c)
target_link_libraries(conform_store_failures PRIVATE tutti_flags test_lib storage base)
fuzz_test(cloud_answer USES storage)
fuzz_test(cloud_keys USES storage)

# tracer_test(name PROGRAM [arguments...])
set(tracer_suite conform/tracer_conform.c ${CMAKE_SOURCE_DIR}/tests/lib/tracer_bed.c)
function(tracer_test name program)
	add_test(NAME conform/tracer_${name} COMMAND ${program} ${ARGN})
	set_tests_properties(conform/tracer_${name} PROPERTIES LABELS unit ENVIRONMENT "${test_suppressions}")
endfunction()

# Each driver of the build, with flags of the agent where the defaults are not enough for a short test.
add_executable(conform_tracer_driver conform/tracer_driver_test.c ${tracer_suite}
	${CMAKE_SOURCE_DIR}/tests/lib/fake_profiler.c ${CMAKE_SOURCE_DIR}/agent/tracers.c)
target_link_libraries(conform_tracer_driver PRIVATE tutti_flags test_lib agent_tracers agent_budget agent_marks net proto)
set(tracer_annotations_flags --annotations-look=50ms)
set(tracer_cgroups_flags --cgroups-hz=10)
set(tracer_cpu_flags --cpu-hz=1000)
set(tracer_metrics_flags --metrics-hz=100)
set(tracer_nvml_flags "--nvml-hz=20 --nvml-library=${CMAKE_BINARY_DIR}/nvml_stub/new/libnvidia-ml.so.1")
set(tracer_profiler_flags "--discover=false --profiler=FAKE")
set(tracer_python_flags --python-hz=200)
set(tracer_watch_flags --watch=/nonexistent)
# These look at all programs of the machine.
foreach(driver annotations cpu sched)
	set(tracer_${driver}_alone ${own_processes})
endforeach()
set(tracer_python_alone ${own_processes} --python)
get_property(drivers GLOBAL PROPERTY TRACERS)
foreach(driver ${drivers})
	tracer_test(${driver} ${tracer_${driver}_alone} $<TARGET_FILE:conform_tracer_driver> ${driver} "${tracer_${driver}_flags}")
	test_rooms(conform/tracer_${driver} agent/tracer/${driver})
endforeach()
tracer_test(cpu_unprivileged ${tracer_cpu_alone} $<TARGET_FILE:conform_tracer_driver> cpu --cpu-hz=1000 --unprivileged)
tracer_test(python_unprivileged ${tracer_python_alone} $<TARGET_FILE:conform_tracer_driver> python --python-hz=200 --unprivileged)

add_executable(conform_tracer_fakes conform/tracer_fakes_test.c ${tracer_suite}
	${CMAKE_SOURCE_DIR}/tests/unit/agent/core_fixture.c)
target_link_libraries(conform_tracer_fakes PRIVATE tutti_flags virtual_time test_lib agent_local agent_conf)
tracer_test(fakes conform_tracer_fakes)
test_rooms(conform/tracer_fakes agent/tracer)

# The simulation's needs virtual time, which the thread sanitizer's preset does not have.
if(NOT TUTTI_SANITIZE STREQUAL thread)
	add_executable(conform_tracer_sim conform/tracer_sim_test.c ${tracer_suite} sim/job.c sim/tracer.c)
	target_link_libraries(conform_tracer_sim PRIVATE tutti_flags virtual_time test_lib agent_marks agent_tracer xspace net proto)
	tracer_test(sim conform_tracer_sim)
endif()
