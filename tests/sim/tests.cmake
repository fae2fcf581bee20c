# The simulation: real agents and a real aggregator in one process, see tests/sim/sim.h.

# The agent's code and the aggregator's use the same names inside. The agent's layers become one object
# of which only what starts and stops an agent can be seen.
set(sim_agent ${CMAKE_CURRENT_BINARY_DIR}/sim_agent.o)
set(sim_agent_shown agent_new agent_free agent_conf_finish agent_conf_table tracer_confs_free
	marks_add tracer_confs_new tracer_run_add_part tracer_run_set_result tracer_run_setting)
list(TRANSFORM sim_agent_shown PREPEND --keep-global-symbol= OUTPUT_VARIABLE sim_agent_keep)
set(sim_agent_layers agent_parts agent_local agent_link agent_capture agent_budget agent_python agent_perf agent_symbols agent_pods agent_proc agent_tracer agent_marks agent_clock agent_conf)
list(TRANSFORM sim_agent_layers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE sim_agent_files)
add_custom_command(OUTPUT ${sim_agent}
	COMMAND ${CMAKE_LINKER} -r --whole-archive ${sim_agent_files} -o ${sim_agent}
	COMMAND ${CMAKE_OBJCOPY} ${sim_agent_keep} ${sim_agent}
	DEPENDS ${sim_agent_layers} VERBATIM)

set(sim_sources check.c check_store.c client.c crash.c daemon.c daemon_agent.c daemon_aggregator.c fleet.c flaky_store.c job.c main.c more.c play.c session_time.c snapshots.c tracer.c user.c)
list(TRANSFORM sim_sources PREPEND sim/)
program(tutti-sim SRC ${sim_sources} ${sim_agent} $<TARGET_OBJECTS:sim_fronts>
	USES test_lib aggregator_core storage xspace net proto base PKG jansson zlib liblzma)
target_link_libraries(tutti-sim PRIVATE proto_generated)
target_link_options(tutti-sim PRIVATE -Wl,--wrap=store_open)

function(sim_test name)
	add_test(NAME sim/${name} COMMAND tutti-sim ${ARGN})
	set_tests_properties(sim/${name} PROPERTIES LABELS sim)
endfunction()

# tests/sim/campaign.sh plays many more, and a thousand agents.
foreach(seeds 1..5 6..10 11..15 16..20 21..25)
	sim_test(seeds_${seeds} --seeds ${seeds})
endforeach()
# A host whose result has one reason, and whose file warns of another; a link that ends because captures are carried on;
# a host that sleeps between two windows that meet.
sim_test(two_reasons --seed 739)
sim_test(dial_again --seed 2266)
sim_test(sleep_at_an_edge --seed 5461)
# A leader that was frozen is killed right after it wakes up, when another one has ended its session: its record of another end stays.
sim_test(woken_leader_fails --takeover --seed 3)
sim_test(woken_leader_commits --takeover --seed 8)
# One that wakes up gives a committed session's file other warnings.
sim_test(woken_leader_notes --takeover --seed 1023)
sim_test(takeover --takeover --seeds 13..18)
sim_test(takeover_machines --takeover --machines --seeds 1..8)
# Nine takeovers in the life of one capture: the bound of each counts.
sim_test(takeover_chain --takeover --machines --seed 4520)
sim_test(replay_takeover --takeover --seed 2 --twice)
sim_test(replay --seeds 26..28 --twice)
sim_test(crash --crash capture --crash-every 10)
sim_test(fleet --seed 1 --agents 60 --minutes 1)
sim_test(snapshots --snapshots --seed 1 --agents 50 --minutes 1)
