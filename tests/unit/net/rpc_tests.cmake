unit_test(net/rpc_test USES net)
