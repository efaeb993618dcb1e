//! The terminal on stdout.

use std::io::stdout;

/// Height that is taken for that of an unknown terminal.
const ROWS: usize = 50;

/// Returns width and height; `$COLUMNS` overrides the width. `None` if neither is known.
pub(super) fn size() -> Option<(usize, usize)> {
    let columns = std::env::var("COLUMNS").ok();
    let named = columns.and_then(|columns| columns.parse().ok()).filter(|width| *width > 0);
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    match (named, size) {
        (named, Some(size)) => Some((named.unwrap_or(size.ws_col.into()), size.ws_row.into())),
        (Some(width), None) => Some((width, ROWS)),
        (None, None) => None,
    }
}
