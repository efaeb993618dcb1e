//! FlagCounts of the flags in an array of data quality.

use asdf_file::array::{ByteOrder, Scalar, ScalarKind, numbers};
use asdf_tree::product::flag_name;
use seekable::content::read_exact_at;
use seekable::error::Result;

use super::arrays::{ArrayRow, Views};
use super::html::{escape, grouped};
use super::sample::{Budget, Sample};

/// The space for the counts in bytes.
pub(super) const RESERVED: usize = 6500;
/// Bytes read at once.
const PIECE: u64 = 256 << 10;

/// Returns how many elements have each flag.
pub(super) fn html(views: &Views, row: &ArrayRow, telescope: &str, budget: &mut Budget) -> Result<String> {
    let Some(elements) = views.elements(&row.path)? else { return Ok(String::new()) };
    let kind = elements.datatype.scalar().map(Scalar::kind);
    let is_integer = matches!(kind, Some(ScalarKind::Int | ScalarKind::Uint));
    if !is_integer || elements.count == 0 {
        return Ok(String::new());
    }
    let item = elements.item;
    let mut counts = FlagCounts::new(item, elements.byteorder);
    let bytes = elements.count * item;
    let is_strided = elements.content.strided().is_some_and(|strided| strided.span > bytes.saturating_mul(4));
    let words = if !is_strided && budget.allows(bytes) {
        let mut at = 0;
        let mut piece = vec![0; usize::try_from(PIECE.min(bytes)).unwrap_or_default()];
        while at < bytes {
            let len = usize::try_from((bytes - at).min(PIECE)).unwrap_or_default();
            read_exact_at(&*elements.content, at, &mut piece[..len])?;
            counts.add(&piece[..len]);
            at += len as u64;
        }
        format!("all {} values", grouped(elements.count))
    } else {
        let sample = Sample::of(&*elements.content, item, elements.count, budget)?;
        for (_, run) in &sample.runs {
            counts.add(run);
        }
        sample.words
    };
    Ok(counts.html(&row.path, &words, telescope))
}

/// The counts so far.
#[derive(Debug)]
struct FlagCounts {
    item: usize,
    byteorder: ByteOrder,
    of_bit: [u64; 64],
    flagged: u64,
    all: u64,
}

impl FlagCounts {
    fn new(item: u64, byteorder: ByteOrder) -> Self {
        let item = usize::try_from(item).unwrap_or(8);
        Self { item, byteorder, of_bit: [0; 64], flagged: 0, all: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        for element in bytes.chunks_exact(self.item) {
            let mut bits = numbers::bits(element, self.byteorder);
            self.all += 1;
            self.flagged += u64::from(bits != 0);
            while bits != 0 {
                self.of_bit[bits.trailing_zeros() as usize] += 1;
                bits &= bits - 1;
            }
        }
    }

    fn html(&self, path: &str, words: &str, telescope: &str) -> String {
        let percent = |count: u64| {
            let share = count as f64 / (self.all as f64).max(1.0) * 100.0;
            if share > 0.0 && share < 0.01 { "&lt; 0.01 %".to_owned() } else { format!("{share:.2} %") }
        };
        let path = super::html::cut(path, 100);
        let good = self.all - self.flagged;
        let mut text = format!(
            "<p>{}: {} of {} values without a flag ({}), from {}</p>",
            escape(&path),
            grouped(good),
            grouped(self.all),
            percent(good),
            escape(words)
        );
        if self.flagged == 0 {
            return text;
        }
        text += &format!(
            "<table class=\"flags\"><caption>Flags in {}</caption><thead><tr><th scope=\"col\">Bit</th><th \
             scope=\"col\">Flag</th><th scope=\"col\">Values</th><th scope=\"col\">Share</th></tr></thead><tbody>",
            escape(&path)
        );
        for (bit, count) in (0..).zip(self.of_bit).filter(|(_, count)| *count > 0) {
            let name = flag_name(telescope, bit).unwrap_or_default();
            text += &format!(
                "<tr><td>{bit}</td><th scope=\"row\">{name}</th><td>{}</td><td>{}</td></tr>",
                grouped(count),
                percent(count)
            );
        }
        text + "</tbody></table>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_counted() {
        let mut counts = FlagCounts::new(4, ByteOrder::Big);
        counts.add(&[0, 0, 0, 0, 0, 0, 0, 3, 0x80, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!((counts.all, counts.flagged), (4, 2));
        assert_eq!((counts.of_bit[0], counts.of_bit[1], counts.of_bit[31]), (2, 1, 1));
        let html = counts.html("roman/dq", "all 4 values", "ROMAN");
        assert!(html.contains("2 of 4 values without a flag (50.00 %)"), "{html}");
        assert!(html.contains("<th scope=\"row\">REFERENCE_PIXEL</th><td>1</td><td>25.00 %</td>"), "{html}");
        // All flags fit in the reserved space.
        counts.add(&[0xff; 400_000]);
        let html = counts.html(&"<".repeat(100), &"x".repeat(60), "ROMAN");
        assert!(html.len() <= RESERVED, "{}", html.len());
        counts = FlagCounts::new(8, ByteOrder::Little);
        counts.add(&[0xff; 8]);
        assert!(counts.html("dq", "", "").len() <= RESERVED);
    }
}
