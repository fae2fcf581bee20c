unit_test(net/rpc_test USES net)
unit_test(net/rpc_tls_test USES net SRC ${CMAKE_SOURCE_DIR}/tests/lib/certs.c PKG libcrypto)
