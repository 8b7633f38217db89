//! The schema is embedded at build time: a new migration must rebuild this crate.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
