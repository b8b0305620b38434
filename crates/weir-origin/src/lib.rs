//! The upstream under the gateway.
