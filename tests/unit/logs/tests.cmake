unit_test(logs/log_line_test PURE USES logs base PKG jansson)
fuzz_test(log_lines USES tracer_logs logs PKG jansson)
