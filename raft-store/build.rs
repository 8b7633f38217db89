//! Compiles the frames to Rust with a protobuf compiler written in Rust, so that none needs to be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/store.proto");
    let descriptors = protox::compile(["proto/store.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
