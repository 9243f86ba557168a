//! How much of the store's disk stays free.

use super::reader::Reader;

const KEY: &str = "store.min_free";

/// Changes are refused while the disk has fewer bytes free.
pub(super) fn min_free(reader: &mut Reader) -> u64 {
    let text = reader.text(KEY);
    bytes(&text).unwrap_or_else(|| {
        let expected = "expected a size in MiB or GiB, such as \"64MiB\", or \"0MiB\" to refuse nothing";
        reader.complain(KEY, expected.to_owned());
        0
    })
}

fn bytes(text: &str) -> Option<u64> {
    let units = [("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.trim_end().parse::<u64>().ok()?.checked_mul(*unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_has_a_unit() {
        assert_eq!(bytes("64MiB"), Some(64 << 20));
        assert_eq!(bytes("2 GiB"), Some(2 << 30));
        assert_eq!(bytes("0MiB"), Some(0));
        for wrong in ["64", "64MB", "-1MiB", "MiB", "99999999999999GiB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
