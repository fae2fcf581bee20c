unit_test(net/share_test PURE USES net)
foreach(t rpc_test rpc_end_test rpc_flow_test)
	unit_test(net/${t} USES net SRC ${CMAKE_SOURCE_DIR}/tests/unit/net/rpc_fixture.c)
endforeach()
unit_test(net/rpc_tls_test USES net SRC ${CMAKE_SOURCE_DIR}/tests/lib/certs.c PKG libcrypto)

program(rpc_echo SRC ${CMAKE_SOURCE_DIR}/tests/e2e/rpc_echo.c USES net)
e2e_test(rpc_interop "e2e")
