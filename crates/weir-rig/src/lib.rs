//! Systems under test: drivers, launching, limits, readiness, samplers, host facts.
