unit_test(aggregator/sessions_test USES aggregator_core PKG jansson)
unit_test(aggregator/registry_test USES aggregator_core PKG jansson)
unit_test(aggregator/selector_test USES aggregator_core PKG jansson)
unit_test(aggregator/options_test USES aggregator_core PKG jansson)
unit_test(aggregator/probe_peer_test USES aggregator_core PKG jansson)
foreach(t capture retry ingest control time_service api profiler_service)
	unit_test(aggregator/${t}_test USES aggregator_core PKG jansson zlib
		SRC ${CMAKE_SOURCE_DIR}/tests/unit/aggregator/fleet.c)
endforeach()
