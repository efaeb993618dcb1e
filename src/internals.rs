//! What the tests of this project, its fuzz targets and its benches need beyond the public interface. No other
//! program may use it: it changes without notice.

#![allow(missing_docs)] // documented where they are defined

pub mod cli {
    pub use crate::cli::run;
}

pub mod fuse {
    pub use crate::fuse::{Adapter, KernelNotifier};
}

pub mod mounted {

    pub mod verify {
        pub use crate::mounted::verify::Verify;
    }
}

pub mod named {
    pub use crate::named::Named;
}

pub mod remote {
    pub use crate::remote::{Address, ContentRange, Remote, RemoteOptions, Trust, Url};

    pub mod date {
        pub use crate::remote::date::{http, index_page, iso};
    }

    pub mod listing {
        pub mod index_page {
            pub use crate::remote::listing::index_page::parse;
        }

        pub mod s3_page {
            pub use crate::remote::listing::s3_page::parse;
        }
    }

    pub mod multipart {
        pub use crate::remote::multipart::{boundary, parts};
    }
}

pub mod vfs {
    pub use crate::vfs::{Options, Vfs};
}

pub mod view {

    pub mod root {
        pub use crate::view::root::RootDir;
    }
}
