unit_test(agent/clock_estimator_test USES agent_core)
