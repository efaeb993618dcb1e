//! What the tests of this project, its fuzz targets and its benches need beyond the public interface. No other
//! program may use it: it changes without notice.

#![allow(missing_docs)] // documented where they are defined

pub mod cli {
    pub use crate::cli::run;
}

pub mod content {
    pub mod dir {
        pub use crate::content::dir::{Dir, EntryKind, File, Node};
    }

    pub mod names {
        pub use crate::content::names::original;
    }

    pub mod npy {
        pub use crate::content::npy::header;
    }
}

pub mod format {
    pub use crate::container::{
        Block, Container, Context, Defect, Fact, Facts, REFERENCES, Severity, Verified, Views,
    };
    pub use crate::format::{open, view_names};

    pub mod asdf {

        pub mod chain {
            pub use crate::asdf::chain::{open, parse};
        }

        pub mod edit {
            pub use crate::edit::{Applied, Indexed, SaveOptions, SavePlan, Target};

            pub mod check {
                pub use crate::edit::check::{Old, Validation, check};
            }
        }

        pub mod index {
            pub use crate::asdf::index::parse;
        }

        pub mod json {
            pub use crate::views::json::of_text;
        }
    }

    pub mod bloscpack {

        pub mod array {
            pub use crate::format::bloscpack::array::Metadata;
        }

        pub mod header {
            pub use crate::format::bloscpack::header::Header;
        }

        pub mod map {
            pub use crate::format::bloscpack::map::ChunkMap;
        }
    }

    pub mod editor {
        pub use crate::edit::context::DeviceLimits;
    }

    pub mod gsd {

        pub mod header {
            pub use crate::format::gsd::header::{Header, MAGIC, SIZE};
        }

        pub mod names {
            pub use crate::format::gsd::names::Names;
        }
    }

    pub mod recovery {
        pub use crate::edit::recovery::SaveSide;
    }
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
