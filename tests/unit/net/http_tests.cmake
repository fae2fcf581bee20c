set(http_fixture ${CMAKE_SOURCE_DIR}/tests/unit/net/http_fixture.c)
unit_test(net/address_test USES net)
unit_test(net/http_server_test USES net SRC ${http_fixture})
