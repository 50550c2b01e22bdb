//! An endpoint behind HTTPS: its certificate is checked against the authorities of the machine.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ask, corpus};
use crate::common::Finished;
use asap_test_support::{Reply, Server};

/// `openssl` made these: an authority, and a server's certificate for localhost that it signed.
fn certificate(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/anchoring/certificates").join(name)
}

/// Accepts TLS connections and passes their bytes to a server without TLS. Returns its port.
async fn terminate_tls(server: String) -> u16 {
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate breaks the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut plain = TcpStream::connect(server).await.unwrap();
                copy_bidirectional(&mut stream, &mut plain).await.ok();
            });
        }
    });
    port
}

#[test]
fn an_endpoint_is_called_over_tls_and_only_if_its_certificate_is_trusted() {
    let workplace = corpus(3);
    let server = Server::start(|_| Reply::text("7"));
    ask(&workplace, &server);
    let address = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let base_url = format!("asap.anchor.base_url=https://localhost:{}/v1", runtime.block_on(terminate_tls(address)));
    let query = |authority: &str| {
        let arguments = ["sql", "--from", "in", "-q", "--format", "json", "--set", &base_url];
        let more = ["--set", "asap.anchor.max_retries=0", "-c", "SELECT count(ai_complete(question)) AS n FROM corpus"];
        let mut command = workplace.command([&arguments[..], &more[..]].concat());
        command.env("SSL_CERT_FILE", certificate(authority)).env_remove("SSL_CERT_DIR");
        Finished::from(command.env("XDG_CACHE_HOME", workplace.path("caches")).output().unwrap())
    };
    // The test certificate is not a CA certificate.
    let refused = query("server.pem");
    let words = ["invalid peer certificate", "; check https in asap.anchor.base_url"];
    assert!(words.iter().all(|words| refused.stderr.contains(words)), "{}", refused.stderr);
    assert_eq!((refused.code, server.count()), (1, 0));
    assert_eq!(query("authority.pem").json(), json!([{ "n": 3 }]));
    assert_eq!(server.count(), 3);
}
