//! Helpers of the run tests: object servers, a proxy that injects faults, the check of a table, and a server of pages.

pub(crate) mod anchorer;
pub(crate) mod objects;
pub(crate) mod proxy;
pub(crate) mod s3;
pub(crate) mod table;
pub(crate) mod viewer;

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

/// Serves connections to a free local port on a separate thread until the process ends.
pub(crate) fn listen<F: Future + 'static>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((connection, _)) = listener.accept().await {
                tokio::task::spawn_local(serve(connection));
            }
        }));
    });
    address
}
