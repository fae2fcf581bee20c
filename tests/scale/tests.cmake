# Thousands of logical agents against the real aggregator: tests/scale/run says how.
program(scale_agents SRC ${CMAKE_SOURCE_DIR}/tests/scale/agents.c ${CMAKE_SOURCE_DIR}/tests/lib/certs.c
	USES base proto net PKG libcrypto zlib)
