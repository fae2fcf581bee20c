# ---- clock ----
set(clock_worlds ${CMAKE_SOURCE_DIR}/tests/lib/clock_world.c ${CMAKE_SOURCE_DIR}/tests/lib/clock_worlds.c
	${CMAKE_SOURCE_DIR}/tests/lib/queue.c)
unit_test(agent/clock/bend_test PURE USES agent_clock SRC ${clock_worlds})
unit_test(agent/clock/clock_test VIRTUAL USES agent_clock)
unit_test(agent/clock/estimator_test PURE USES agent_clock SRC ${clock_worlds})
unit_test(agent/clock/exchange_test PURE USES agent_clock)
unit_test(agent/clock/ledger_test PURE USES agent_clock)
unit_test(agent/clock/model_test USES agent_clock)

# ---- what tracers stand on ----
unit_test(agent/budget/throttle_test PURE USES agent_budget)
if(NOT TUTTI_SANITIZE STREQUAL thread)	# half an hour of waiting, which only virtual time makes short
	unit_test(agent/budget/budget_test VIRTUAL USES agent_budget net)
endif()
unit_test(agent/marks/marks_test VIRTUAL USES tracer_marks net)
unit_test(agent/marks/steps_test PURE USES agent_marks)
unit_test(agent/perf/decode_test PURE USES agent_perf)
unit_test(agent/perf/stacks_test PURE USES agent_perf)
unit_test(agent/perf/threads_test PURE USES agent_perf)
unit_test(agent/pods/pod_view_test PURE USES agent_pods)
unit_test(agent/proc/cgroup_path_test PURE USES agent_proc)
unit_test(agent/proc/command_test PURE USES agent_proc)
set(file_reader ${CMAKE_SOURCE_DIR}/tests/lib/file_reader.c)
unit_test(agent/proc/far_file_test USES agent_proc SRC ${file_reader})
unit_test(agent/proc/listeners_test PURE USES agent_proc)
unit_test(agent/proc/slurm_task_test PURE USES agent_proc)
unit_test(agent/symbols/symbols_test PURE USES agent_symbols SRC ${file_reader})
unit_test(agent/python/hung_test USES agent_python)
unit_test(agent/python/layout_test PURE USES agent_python)
unit_test(agent/python/sampler_test USES agent_python)
unit_test(agent/python/take_test USES agent_python)
unit_test(agent/python/turns_test PURE USES agent_python)
unit_test(agent/python/targets_test PURE USES agent_python SRC ${CMAKE_SOURCE_DIR}/tests/lib/fake_python.c)
fuzz_test(elf USES agent_symbols)
fuzz_test(perf USES tracer_cpu tracer_sched)
fuzz_test(python USES agent_python)
fuzz_test(proc_text USES agent_perf agent_symbols agent_proc tracer_cgroups)

# ---- tracers ----
if(NOT TUTTI_SANITIZE STREQUAL thread)	# what is lost depends on time, which is certain only where it is virtual
	unit_test(agent/tracer/counters_test VIRTUAL USES agent_tracer net)
endif()
unit_test(agent/tracer/build_job_test VIRTUAL USES agent_tracer net)
unit_test(agent/tracer/ring_run_test PURE USES agent_tracer)
unit_test(agent/tracer/ring_test PURE USES agent_tracer)
set(fake_profiler ${CMAKE_SOURCE_DIR}/tests/lib/fake_profiler.c)
set(fake_proc ${CMAKE_SOURCE_DIR}/tests/lib/fake_proc.c)
set(tracer_bed ${CMAKE_SOURCE_DIR}/tests/lib/tracer_bed.c)
unit_test(agent/tracer/annotations/decoder_test PURE USES tracer_annotations)
unit_test(agent/tracer/annotations/rings_test OWN_PROCESSES USES tracer_annotations)
unit_test(agent/tracer/annotations/nvtx_test PURE USES tracer_annotations SRC ${CMAKE_SOURCE_DIR}/inject/nvtx.c)
unit_test(agent/tracer/cgroups/cgroups_test PURE USES tracer_cgroups)
unit_test(agent/tracer/cpu/real_test OWN_PROCESSES USES tracer_cpu SRC ${tracer_bed})
set_tests_properties(unit/agent/tracer/cpu/real_test PROPERTIES SKIP_RETURN_CODE 77)
unit_test(agent/tracer/cpu/python_frames_test PURE USES tracer_cpu)
unit_test(agent/tracer/cpu/window_test PURE USES tracer_cpu)
unit_test(agent/tracer/sched/intervals_test PURE USES tracer_sched)
foreach(stub new old no_driver)	# NVML for machines without any, not sanitized: Python loads it, too
	string(TOUPPER NVML_STUB_${stub} define)
	add_library(nvml_stub_${stub} MODULE ${CMAKE_SOURCE_DIR}/tests/lib/nvml_stub.c)
	target_compile_definitions(nvml_stub_${stub} PRIVATE ${define})
	set_target_properties(nvml_stub_${stub} PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX .so.1
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/nvml_stub/${stub})
endforeach()
unit_test(agent/tracer/nvml/devices_test PURE USES tracer_nvml
	ARGS $<TARGET_FILE:nvml_stub_new> $<TARGET_FILE:nvml_stub_old> $<TARGET_FILE:nvml_stub_no_driver>)
if(TEST unit/agent/tracer/nvml/devices_test)
	add_test(NAME unit/agent/tracer/nvml/oracle COMMAND ${CMAKE_SOURCE_DIR}/tests/e2e/python.sh
		${CMAKE_SOURCE_DIR}/tests/unit/agent/tracer/nvml/oracle.py $<TARGET_FILE:unit_agent_tracer>
		$<TARGET_FILE_DIR:nvml_stub_new>)
	set_tests_properties(unit/agent/tracer/nvml/oracle PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()
unit_test(agent/tracer/logs/files_test PURE USES tracer_logs logs)
unit_test(agent/tracer/logs/journal_test PURE USES tracer_logs logs)
unit_test(agent/tracer/logs/sources_test PURE USES tracer_logs logs)
unit_test(agent/tracer/metrics/metrics_test USES tracer_metrics SRC ${tracer_bed})
unit_test(agent/tracer/profiler/discover_test VIRTUAL USES tracer_profiler SRC ${fake_profiler} ${fake_proc})
unit_test(agent/tracer/profiler/file_test PURE USES tracer_profiler)
unit_test(agent/tracer/profiler/lane_test USES tracer_profiler)
unit_test(agent/tracer/profiler/reply_test PURE USES tracer_profiler)
if(NOT TUTTI_SANITIZE STREQUAL thread)	# 90 s of waiting, which only virtual time makes short
	unit_test(agent/tracer/profiler/tracer_profiler_test VIRTUAL USES tracer_profiler SRC ${fake_profiler} ${fake_proc})
endif()
fuzz_test(profiler_reply USES tracer_profiler)
unit_test(agent/tracer/pytorch/processes_test USES tracer_pytorch)
unit_test(agent/tracer/watch/folder_test PURE USES tracer_watch)
fuzz_test(dynolog USES tracer_pytorch)
fuzz_test(annotations USES tracer_annotations)
fuzz_test(nvtx SRC ${CMAKE_SOURCE_DIR}/inject/nvtx.c USES base)

# ---- captures, the link, local clients: an agent without a network, tracers that do as they are told ----
set(core_fixture ${CMAKE_SOURCE_DIR}/tests/unit/agent/core_fixture.c)
unit_test(agent/conf_test PURE USES agent_tracers agent_tracer agent_conf SRC ${CMAKE_SOURCE_DIR}/agent/tracers.c)
unit_test(agent/capture/assemble_test PURE USES agent_capture)
unit_test(agent/capture/edges_test PURE USES agent_capture)
unit_test(agent/capture/capture_clock_test VIRTUAL USES agent_capture agent_conf SRC ${core_fixture})
unit_test(agent/capture/capture_test VIRTUAL USES agent_capture agent_conf SRC ${core_fixture})
unit_test(agent/link/control_test VIRTUAL USES agent_link agent_conf PKG jansson zlib
	SRC ${core_fixture} ${CMAKE_SOURCE_DIR}/tests/unit/agent/link/fake_aggregator.c)
if(NOT TUTTI_SANITIZE STREQUAL thread)	# minutes of waiting, which only virtual time makes short
	unit_test(agent/link/enrol_test VIRTUAL USES agent_link agent_conf PKG jansson zlib
		SRC ${core_fixture} ${CMAKE_SOURCE_DIR}/tests/unit/agent/link/fake_aggregator.c)
	unit_test(agent/snapshot_requests_test VIRTUAL USES agent_link agent_conf
		SRC ${core_fixture} ${CMAKE_SOURCE_DIR}/agent/snapshot_requests.c ${CMAKE_SOURCE_DIR}/tests/unit/agent/link/fake_aggregator.c)
endif()
unit_test(agent/link/addresses_test PURE USES agent_link PKG jansson zlib)
unit_test(agent/link/message_clock_test PURE USES agent_link PKG jansson zlib)
unit_test(agent/local/local_service_test USES agent_local agent_conf PKG jansson SRC ${core_fixture})
unit_test(agent/local/peer_owner_test PURE USES agent_local)
unit_test(agent/local/profiler_service_test VIRTUAL ALONE USES agent_local)

# For end-to-end tests: a framework's server that misbehaves as told, and the tracer alone.
program(fake_profiler SRC ${CMAKE_SOURCE_DIR}/tests/e2e/fake_profiler.c ${fake_profiler}
	USES xspace net proto base)
program(profile_once SRC ${CMAKE_SOURCE_DIR}/tests/e2e/profile_once.c USES tracer_profiler)
e2e_test(profiler_jax "e2e;jax")

# For tests/bench/tracers.
add_executable(tracers_bench ${CMAKE_SOURCE_DIR}/tests/bench/tracers.c ${tracer_bed})
target_link_libraries(tracers_bench PRIVATE agent_tracers agent_tracer)

# For tests/bench/annotations.
add_executable(annotations_bench ${CMAKE_SOURCE_DIR}/tests/bench/annotations.c)
target_link_libraries(annotations_bench PRIVATE tutti_flags)

# For tests/bench/agent.
add_executable(agent_job ${CMAKE_SOURCE_DIR}/tests/bench/agent_job.c)
target_link_libraries(agent_job PRIVATE tutti_flags base)
