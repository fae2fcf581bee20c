set(local_socket_fixture ${CMAKE_SOURCE_DIR}/tests/unit/net/local_socket_fixture.c)
set(http_fixture ${CMAKE_SOURCE_DIR}/tests/unit/net/http_fixture.c)
unit_test(net/address_test PURE USES net)
unit_test(net/local_socket_abuse_test USES net SRC ${local_socket_fixture})
unit_test(net/local_socket_close_test USES net)
unit_test(net/local_socket_test USES net SRC ${local_socket_fixture})
unit_test(net/http_client_test USES net SRC ${http_fixture})
unit_test(net/http_server_test USES net
	SRC ${http_fixture} ${CMAKE_SOURCE_DIR}/tests/lib/certs.c PKG libcrypto)
unit_test(net/peers_test PURE USES net)
unit_test(net/http_conns_test VIRTUAL PURE USES net)
unit_test(net/http_stream_test USES net SRC ${http_fixture})
unit_test(net/udp_test USES net)
fuzz_test(http_query USES net)
unit_test(net/sigv4_test USES net)
# The same against botocore, where a Python has it.
add_test(NAME unit/net/sigv4_botocore
	COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/unit/net/sigv4_botocore.py $<TARGET_FILE:test_net_sigv4_test>)
set_tests_properties(unit/net/sigv4_botocore PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
