unit_test(json/json_text_test USES json base PKG jansson)
