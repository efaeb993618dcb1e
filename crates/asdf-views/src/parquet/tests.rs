use seekable::content::Text;

use super::*;

fn content(bytes: Vec<u8>) -> Arc<dyn Content> {
    Arc::new(Text::new(bytes))
}

fn values(element: Element, bytes: Vec<u8>) -> Column {
    Column::Values(Values { element, big_endian: false, content: content(bytes), missing: None })
}

/// Returns the whole file, read in pieces of this length.
fn all(table: &ParquetTable, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = vec![0; piece];
    loop {
        match table.read_at(all.len() as u64, &mut buf).unwrap() {
            0 => return all,
            read => all.extend_from_slice(&buf[..read]),
        }
    }
}

#[test]
fn a_file_has_the_length_that_it_says_and_reads_the_same_in_all_pieces() {
    let rows = 3000_u64;
    let bytes = |size: u64| (0..rows * size).map(|n| (n % 119) as u8).collect::<Vec<u8>>();
    let int = |size, signed| Element::Int { size, signed };
    let missing = Some(content((0..rows).map(|n| u8::from(n % 3 == 0)).collect()));
    let nullable =
        Values { element: Element::Ascii(5), big_endian: false, content: content(bytes(5)), missing };
    let columns = [
        ("plain".to_owned(), values(int(8, true), bytes(8))),
        ("small".to_owned(), values(int(1, false), bytes(1))),
        ("truth".to_owned(), values(Element::Bool, bytes(1))),
        ("texts".to_owned(), Column::Values(nullable)),
        ("lists".to_owned(), Column::List(7, Box::new(values(Element::Float { size: 4 }, bytes(28))))),
        (
            "both".to_owned(),
            Column::Group {
                columns: vec![("x".to_owned(), values(Element::Float { size: 2 }, bytes(2)))],
                nullable: false,
            },
        ),
        ("empty".to_owned(), values(Element::Ascii(0), Vec::new())),
    ];
    let table = ParquetTable::new(&columns, rows).unwrap();
    let whole = all(&table, 1 << 20);
    assert_eq!(whole.len() as u64, table.len());
    assert!(whole.starts_with(MAGIC) && whole.ends_with(MAGIC));
    for piece in [977, 65_536, 4096] {
        assert!(all(&table, piece) == whole, "{piece}");
    }
    let mut byte = [0];
    for at in (0..whole.len()).step_by(499) {
        table.read_at(at as u64, &mut byte).unwrap();
        assert_eq!(byte[0], whole[at], "{at}");
    }
    assert_eq!(table.read_at(table.len(), &mut byte).unwrap(), 0);
    assert_eq!(table.read_at(u64::MAX, &mut byte).unwrap(), 0);
}

#[test]
fn groups_are_few_however_many_rows_there_are() {
    /// A huge content of a constant byte.
    #[derive(Debug)]
    struct Endless(u64);
    impl Content for Endless {
        fn len(&self) -> u64 {
            self.0
        }
        fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<usize> {
            buf.fill(7);
            Ok(buf.len())
        }
    }
    let element = Element::Float { size: 8 };
    let column = |rows: u64| {
        let content = Arc::new(Endless(rows * 8));
        Column::Values(Values { element, big_endian: false, content, missing: None })
    };
    for (rows, groups) in
        [(0, 0), (1, 1), (1 << 17, 1), ((1 << 17) + 1, 2), (1 << 50, 1 << 13), (1 << 58, 1 << 13)]
    {
        let columns = [("a".to_owned(), column(rows)), ("b".to_owned(), column(rows))];
        let table = ParquetTable::new(&columns, rows).unwrap();
        assert_eq!(table.groups().count(), groups, "{rows}");
        assert!(table.footer.bytes.len() < 2 << 20 && table.len() >= rows * 16);
        let mut buf = [0; 64];
        for offset in [0, 4, 100, table.len() / 2, table.footer_at.saturating_sub(9), table.footer_at] {
            table.read_at(offset, &mut buf).unwrap();
        }
    }
    let columns = [("a".to_owned(), column(1 << 60)), ("b".to_owned(), column(1 << 60))];
    assert!(ParquetTable::new(&columns, 1 << 60).is_err());
}

#[test]
fn plain_columns_are_where_they_lie() {
    let table =
        ParquetTable::new(&[("a".to_owned(), values(Element::Float { size: 8 }, vec![9; 80]))], 10).unwrap();
    let header = layout_header(&table);
    let (_, start, len) = table.plain_at(4 + header + 16).unwrap();
    assert_eq!((start, len), (16, 64));
    assert!(table.plain_at(4).is_none() && table.plain_at(table.footer_at).is_none());
}

fn layout_header(table: &ParquetTable) -> u64 {
    table.at(4).unwrap().1.header.len() as u64
}

#[test]
fn what_can_be_no_row_is_refused() {
    let element = Element::Int { size: 1, signed: true };
    let list = |len| [("a".to_owned(), Column::List(len, Box::new(values(element, Vec::new()))))];
    assert!(ParquetTable::new(&list(0), 1).is_err());
    assert!(ParquetTable::new(&list(u64::MAX), 1).is_err());
    assert!(ParquetTable::new(&list(1 << 30), 1).is_err());
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    let table = |element, bytes: &[u8]| {
        ParquetTable::new(&[("a".to_owned(), values(element, bytes.to_vec()))], 1).unwrap()
    };
    let read_all = |table: ParquetTable| {
        let mut buf = vec![0; table.len() as usize];
        let read = table.read_at(0, &mut buf).unwrap();
        read == buf.len()
    };
    assert!(read_all(table(Element::Ascii(3), b"abc")));
    assert!(!read_all(table(Element::Ascii(3), b"a\xffb")));
    assert!(!read_all(table(Element::Ucs4(1), &0xd800_u32.to_le_bytes())));
}
