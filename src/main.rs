//! The `asdf-mount` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(asdf_mount::cli::run(std::env::args_os()))
}
