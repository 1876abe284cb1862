//! The encoding of parameters, in a query or in a form body.
//!
//! Everything outside `[A-Za-z0-9_.~-]` is percent-encoded: pveproxy splits pairs at `&` *and* `;`, cuts a value at a
//! second `=`, and reads `+` as a space (pve-http-server: `decode_urlencoded`).

/// `name=value` pairs, encoded and joined by `&`.
pub fn encode<'p>(params: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let mut out = String::new();
    for (name, value) in params {
        if !out.is_empty() {
            out.push('&');
        }
        escape(name, "", &mut out);
        out.push('=');
        escape(value, "", &mut out);
    }
    out
}

/// One segment of a path; `:`, `@` and `!`, which occur in UPIDs, stay as they are (RFC 3986: `pchar`).
pub fn segment(text: &str) -> String {
    let mut out = String::new();
    escape(text, ":@!", &mut out);
    out
}

fn escape(text: &str, kept: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte) || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_perl_would_split_is_encoded() {
        let params = [
            ("scsi1", "local:20,format=qcow2"),
            ("boot", "order=scsi0;ide2"),
            ("size", "+10G"),
            ("d", "é \n"),
        ];
        assert_eq!(
            encode(params),
            "scsi1=local%3A20%2Cformat%3Dqcow2&boot=order%3Dscsi0%3Bide2&size=%2B10G&d=%C3%A9%20%0A"
        );
        assert_eq!(encode([("a~b", "-._~")]), "a~b=-._~");
        assert_eq!(encode([]), "");
    }

    #[test]
    fn a_upid_stays_readable_in_a_path() {
        assert_eq!(
            segment("UPID:pve1:0:qmstart:100:root@pam!t:"),
            "UPID:pve1:0:qmstart:100:root@pam!t:"
        );
        assert_eq!(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
    }
}
