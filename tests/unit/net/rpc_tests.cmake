foreach(t rpc_test rpc_end_test rpc_flow_test)
	unit_test(net/${t} USES net SRC ${CMAKE_SOURCE_DIR}/tests/unit/net/rpc_fixture.c)
endforeach()
unit_test(net/rpc_tls_test USES net SRC ${CMAKE_SOURCE_DIR}/tests/lib/certs.c PKG libcrypto)

program(rpc_echo SRC ${CMAKE_SOURCE_DIR}/tests/e2e/rpc_echo.c USES net)
add_test(NAME e2e/rpc_interop
	COMMAND ${CMAKE_COMMAND} -E env TUTTI_BIN=${CMAKE_BINARY_DIR}/bin TUTTI_TEST_SLOW=2
		TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
		${CMAKE_SOURCE_DIR}/tests/e2e/python.sh ${CMAKE_SOURCE_DIR}/tests/e2e/rpc_interop_test.py)
set_tests_properties(e2e/rpc_interop PROPERTIES TIMEOUT 300 LABELS e2e SKIP_RETURN_CODE 77)
