unit_test(json/json_text_test PURE USES json base PKG jansson)
unit_test(json/packed_test PURE USES json base PKG jansson)
fuzz_test(packed USES json base PKG jansson)
