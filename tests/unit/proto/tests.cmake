unit_test(proto/names_test USES proto)
unit_test(proto/probe_test USES proto)
unit_test(proto/siphash_test USES proto)
fuzz_test(probe USES proto)
