unit_test(aggregator/sessions/sessions_test PURE USES aggregator_sessions PKG jansson)
unit_test(aggregator/evidence/causality_test PURE USES aggregator_evidence PKG jansson)
unit_test(aggregator/evidence/refine_test PURE USES aggregator_evidence)
unit_test(aggregator/fleet/registry_test PURE USES aggregator_api PKG jansson)
unit_test(aggregator/fleet/selector_test PURE USES aggregator_fleet PKG jansson)
unit_test(aggregator/fleet/probe_peer_test PURE USES aggregator_fleet PKG jansson)
unit_test(aggregator/captures/lead_test PURE USES aggregator_captures)
unit_test(aggregator/captures/step_plan_test PURE USES aggregator_captures)
unit_test(aggregator/captures/options_test PURE USES aggregator_captures PKG jansson)
# An aggregator and fake agents in one process.
set(fleet ${CMAKE_SOURCE_DIR}/tests/unit/aggregator/fleet.c)
foreach(t captures/capture captures/durable captures/text captures/queue captures/retry captures/recovery
		ingest/ingest link/control xprof/profiler_service)
	unit_test(aggregator/${t}_test VIRTUAL USES aggregator_core PKG jansson zlib SRC ${fleet})
endforeach()
# Over real sockets: HTTP, and what the kernel stamps.
foreach(t api/api time/time_service)
	unit_test(aggregator/${t}_test USES aggregator_core PKG jansson zlib SRC ${fleet})
endforeach()
