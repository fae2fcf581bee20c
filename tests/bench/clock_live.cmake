# Run by hand: it takes a minute of a quiet machine. See docs/time.md and the program's head.
program(clock_live SRC ${CMAKE_SOURCE_DIR}/tests/bench/clock_live.c
	USES agent_core aggregator_core base proto net PKG jansson zlib)
target_link_options(clock_live PRIVATE -Wl,--wrap=setsockopt)
