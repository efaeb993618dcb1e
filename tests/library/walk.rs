//! The walk over a directory of a server.

use std::sync::Arc;

use asdf_access::files::{FilesToRead, Found};
use asdf_access::named::Servers;
use asdf_access::options::RemoteOptions;
use common::server::{Reply, Server};
use seekable::cache::Cache;

#[test]
fn a_walk_goes_as_deep_as_a_mount() {
    let page = "<html><head><title>Index of x</title></head><pre><a href=\"../\">../</a>\
                <a href=\"d/\">d/</a> 06-Nov-1994 08:49  -\n</pre></html>";
    let server = Server::start(|_, _| Reply::status(200).body("text/html", page));
    let servers = Servers::new(&RemoteOptions::default(), &Arc::new(Cache::new(1 << 20)));
    for (above, said) in [(0, 101), (90, 101)] {
        let before = server.count();
        let url = server.url(&format!("/{}", "d/".repeat(above)));
        let mut found = FilesToRead::new(std::iter::once(url.into()), &servers);
        let Some(Found::Failed(_, error)) = found.next() else { panic!("the walk ends without an error") };
        assert!(error.message().contains("directories nest more than 100 deep"), "{error}");
        assert!(found.next().is_none());
        let depth = |target: &str| target.bytes().filter(|byte| *byte == b'/').count();
        let requests = server.requests();
        assert_eq!(requests[before..].iter().map(|request| depth(&request.target)).max(), Some(said));
    }
}
