unit_test(json/json_text_test PURE USES json base PKG jansson)
