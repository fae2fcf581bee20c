# The framework profilers' tracer and the agent's own ProfilerService.
set(fake_profiler ${CMAKE_SOURCE_DIR}/tests/lib/fake_profiler.c)
set(fake_proc ${CMAKE_SOURCE_DIR}/tests/lib/fake_proc.c)

unit_test(agent/profiler_file_test USES agent_profiler)
unit_test(agent/profiler_reply_test USES agent_profiler)
unit_test(agent/profiler_request_test USES agent_profiler)
unit_test(agent/discover_test USES agent_profiler SRC ${fake_profiler} ${fake_proc})
unit_test(agent/tracer_profiler_test USES agent_profiler SRC ${fake_profiler} ${fake_proc})
unit_test(agent/profiler_service_test USES agent_profiler)
fuzz_test(profiler_reply USES agent_profiler)

# For end-to-end tests: a framework's server that misbehaves as told, and the tracer alone.
program(fake_profiler SRC ${CMAKE_SOURCE_DIR}/tests/e2e/fake_profiler.c ${fake_profiler}
	USES xspace net proto base)
program(profile_once SRC ${CMAKE_SOURCE_DIR}/tests/e2e/profile_once.c USES agent_profiler)
e2e_test(profiler_jax "e2e;jax" 400)
# Its discovery captures every JAX job of the machine, those of other tests too.
set_tests_properties(e2e/profiler_jax PROPERTIES RESOURCE_LOCK jax)
