//! The text of a response: bounded, and without a compression that no request asked for.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use crate::chat::FailureKind;
use crate::send::response::Failure;

/// A stream repeats the names of its fields for each token: it may have this many times the bytes of a message.
const STREAMED: usize = 16;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the most bytes of a response that begins with these, if `limit` is that of a message in JSON.
pub(crate) fn most(begin: &[u8], limit: usize) -> usize {
    match begin.trim_ascii_start().first() {
        None | Some(b'{' | b'[') => limit,
        Some(_) => limit.saturating_mul(STREAMED),
    }
}

pub(crate) fn too_long(limit: usize) -> Failure {
    let message = format!("expected a response of at most {limit} bytes, found a longer one");
    Failure::lasting(FailureKind::BadResponse, message)
}

/// Returns the text of a body, of at most [`most`] bytes. Headers alone do not decide: some proxies keep the name of a
/// compression that they have undone, and others leave it out.
pub(crate) fn text(bytes: Vec<u8>, headers: &HeaderMap, limit: usize) -> Result<String, Failure> {
    let named = headers.get(CONTENT_ENCODING).map(|name| name.as_bytes().trim_ascii().to_ascii_lowercase());
    let named = named.map(|name| String::from_utf8_lossy(&name).into_owned()).unwrap_or_default();
    let bytes = match named.as_str() {
        _ if bytes.starts_with(&GZIP) => unpacked("gzip", MultiGzDecoder::new(bytes.as_slice()), limit)?,
        _ if bytes.starts_with(&ZSTD) => return Err(unknown("zstd")),
        "" | "identity" => bytes,
        _ if is_text(&bytes) => bytes,
        "deflate" => unpacked(&named, ZlibDecoder::new(bytes.as_slice()), limit)
            .or_else(|_| unpacked(&named, DeflateDecoder::new(bytes.as_slice()), limit))?,
        named => return Err(unknown(named)),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(|c| !c.is_control() || c.is_whitespace()))
}

fn unpacked(name: &str, packed: impl Read, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more shows that there is more.
    let enough = limit.saturating_mul(STREAMED).saturating_add(1);
    match packed.take(enough as u64).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() <= most(&bytes, limit) => Ok(bytes),
        Ok(_) => Err(too_long(most(&bytes, limit))),
        Err(error) => {
            let message = format!("expected a whole response, found one in {name} that is damaged: {error}");
            Err(Failure::passing(FailureKind::BadResponse, message))
        }
    }
}

/// The failure of a server that compresses as asap cannot read: each further answer would be paid and lost.
fn unknown(name: &str) -> Failure {
    let name: String = name.chars().filter(char::is_ascii_graphic).take(40).collect();
    let message = format!(
        "expected a response without compression, found one in '{name}': have the server, or the proxy before it, send \
         none, or gzip"
    );
    Failure::lasting(FailureKind::EndpointDown, message)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const TEXT: &str = "{\"choices\": [{\"message\": {\"content\": \"ä 7\"}}]}";
    const LIMIT: usize = 1000;

    fn read(bytes: &[u8], encoding: Option<&str>) -> Result<String, Failure> {
        let headers = encoding.map(|name| (CONTENT_ENCODING, name.parse().unwrap())).into_iter().collect();
        text(bytes.to_vec(), &headers, LIMIT)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_body_is_read_whatever_its_headers_say_of_a_compression() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(TEXT.as_bytes()).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(TEXT.as_bytes()).unwrap();
        for (bytes, named) in [
            (gzip(TEXT.as_bytes()), Some("gzip")),
            (gzip(TEXT.as_bytes()), Some("x-gzip")),
            (gzip(TEXT.as_bytes()), None),
            ([gzip(&TEXT.as_bytes()[..9]), gzip(&TEXT.as_bytes()[9..])].concat(), Some("gzip")),
            (zlib.finish().unwrap(), Some("Deflate")),
            (deflate.finish().unwrap(), Some("deflate")),
            (TEXT.into(), Some("gzip")),
            (TEXT.into(), Some("br")),
            (TEXT.into(), Some("identity")),
            (TEXT.into(), None),
        ] {
            assert_eq!(read(&bytes, named).unwrap(), TEXT, "{named:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_and_never_shown() {
        let zstd = [&ZSTD[..], b"\x00\x1b[2J"].concat();
        let cut = &gzip(TEXT.as_bytes())[..20];
        let noise = b"\x0b\x02\x80\x1b[2J\xff";
        for (bytes, named, words, kind, passes) in [
            (&zstd[..], Some("zstd"), "found one in 'zstd'", FailureKind::EndpointDown, false),
            (&zstd, None, "found one in 'zstd'", FailureKind::EndpointDown, false),
            (noise, Some("br"), "found one in 'br'", FailureKind::EndpointDown, false),
            (noise, Some("gzip, br"), "found one in 'gzip,br'", FailureKind::EndpointDown, false),
            (cut, Some("gzip"), "found one in gzip that is damaged", FailureKind::BadResponse, true),
            (
                b"\x07\x1b[2J\xff",
                Some("deflate"),
                "found one in deflate that is damaged",
                FailureKind::BadResponse,
                true,
            ),
        ] {
            let Failure { error, is_passing, .. } = read(bytes, named).unwrap_err();
            assert!(error.message.contains(words) && !error.message.contains('\x1b'), "{error}");
            assert_eq!((error.kind, is_passing), (kind, passes), "{words}");
        }
    }

    #[test]
    fn a_bomb_is_read_up_to_the_limit() {
        for (text, most) in [(b'[', LIMIT), (b'd', LIMIT * STREAMED)] {
            let error = read(&gzip(&vec![text; 50 << 20]), Some("gzip")).unwrap_err().error;
            assert!(error.message.contains(&format!("at most {most} bytes, found a longer one")), "{error}");
        }
    }
}
