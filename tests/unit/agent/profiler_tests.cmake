# The framework profilers' tracer and the agent's own ProfilerService.
set(fake_profiler ${CMAKE_SOURCE_DIR}/tests/lib/fake_profiler.c)

unit_test(agent/profiler_reply_test USES agent_profiler)
unit_test(agent/discover_test USES agent_profiler SRC ${fake_profiler})
unit_test(agent/tracer_profiler_test USES agent_profiler SRC ${fake_profiler})
fuzz_test(profiler_reply USES agent_profiler)
