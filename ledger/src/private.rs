//! A PostgreSQL of one's own: its own data folder, loopback only, never as root, stopped when dropped.
//!
//! For the demo, the tests and the bench; a venue brings its own server.
