//! Listeners, connections, exchanges, upstream pools, admin.
