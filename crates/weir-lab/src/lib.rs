//! Scenario to cells, order, run, store; resume after a crash.
