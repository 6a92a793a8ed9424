//! The fuzzer's bytes as a program that writes documents. Any bytes are a program: it writes pieces
//! a number of times, and so reaches lengths at which behavior changes (64, 255, 65,535) with few
//! bytes.

use nanotok_bpe::Merge;

/// Limit of the written bytes.
const MAX_BYTES: usize = 140_000;

/// A merge whose token would have more bytes is skipped.
const MAX_TOKEN: usize = 66_000;

/// Limit of the bytes of all tokens together.
const MAX_SPELLINGS: usize = 400_000;

/// A number of merges from this value on selects wide ids.
const WIDE: u8 = 240;

/// Pieces with a decision for splitting, delimited by bars.
const PIECES: [&str; 6] = [
    "a|s|K|LL|word|Abcdefgh|abcdefghijklmn|\u{e9}|\u{17f}|\u{212a}|\u{130}|\u{4e2d}\u{6587}|\u{10400}|\u{1c5}",
    "\u{e01}\u{e33}|'|'S|'\u{17f}|'ll|'lL|'Re|'v|'ve|'d|\u{2019}s| |  |\t|\n|\r|\r\n|\u{b}|\u{c}| a| 1| !",
    "\u{1c}|\u{85}|\u{a0}|\u{1680}|\u{180e}|\u{2003}|\u{200b}|\u{2028}|\u{2029}|\u{202f}|\u{205f}|\u{3000}",
    "\u{feff}|0|12|12345|\u{bd}|\u{2167}|\u{b2}|\u{663}|\u{301}|\u{94d}|\u{2b0}|\u{1d7d8}|\u{e000}",
    "\u{1f468}\u{200d}\u{1f4bb}|\u{1f600}|!|/|...|=====\n|_|\0|\u{10ffff}|{\n|//\r\n/|\u{378}|\u{fffd}",
    "ab|ba|abab|bcbc|aaaaaaaaaaaaaaa|aaaaaaaaaaaaaaaa|\u{7f}|\u{80}|\u{7ff}|\u{800}|\u{ffff}|\u{10000}",
];

/// Bytes that are not valid UTF-8: continuation bytes, starts of a character, a surrogate, overlong
/// forms, too high values.
const BROKEN: [&[u8]; 8] = [
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xe4\xb8",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
];

/// Bytes of the first merges: many a and b, so that merges interact, and some of the pieces above.
const SYMBOLS: &[u8; 64] =
    b"aaaaaaaaaaaabbbbbbbbbbbbcelstrv '  \n\t!/.={AKLS12\xc3\xa9\xc5\xbf\xe4\xb8\xad\xe3\x80\x81\xf0\x9f\x98\x80\xcc\xff";

/// A program that is read from its start; after its end every byte is 0.
#[derive(Debug)]
pub struct Program<'p> {
    bytes: &'p [u8],
}

impl<'p> Program<'p> {
    /// Any bytes are a program.
    pub fn new(bytes: &'p [u8]) -> Self {
        Self { bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// At most `number` of the next bytes.
    fn take(&mut self, number: usize) -> &'p [u8] {
        let (taken, rest) = self.bytes.split_at(number.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Up to 119 merges; or fewer and all pairs of bytes, which exceed 16 bits.
    pub fn merges(&mut self) -> Vec<Merge> {
        let count = self.byte();
        let mut merges: Vec<Merge> = Vec::new();
        let mut lengths = vec![1; 256];
        let number = if count < WIDE { count % 120 } else { 4 * (count - WIDE) };
        for _ in 0..number {
            let [left, right] = [self.byte(), self.byte()].map(|byte| operand(byte, merges.len()));
            let length: usize = lengths[left as usize] + lengths[right as usize];
            let total: usize = lengths.iter().sum();
            let known = merges.contains(&(left, right));
            if !known && length <= MAX_TOKEN && total + length <= MAX_SPELLINGS {
                merges.push((left, right));
                lengths.push(length);
            }
        }
        if count >= WIDE {
            let own = merges.clone();
            let pairs = (0..256).flat_map(|left| (0..256).map(move |right| (left, right)));
            merges.extend(pairs.filter(|pair| !own.contains(pair)));
        }
        merges
    }

    /// The documents that the rest of the program writes; `tokens` can be written too.
    pub fn documents(&mut self, tokens: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut documents = vec![Vec::new()];
        let mut room = MAX_BYTES;
        while !self.bytes.is_empty() {
            let Some(piece) = self.piece(tokens) else {
                documents.push(Vec::new());
                continue;
            };
            let times = self.times().min(room / piece.len().max(1));
            room -= times * piece.len();
            if let Some(document) = documents.last_mut() {
                document.extend(piece.repeat(times));
            }
        }
        documents
    }

    /// The next piece; `None` ends a document.
    fn piece(&mut self, tokens: &[Vec<u8>]) -> Option<Vec<u8>> {
        let kind = self.byte();
        let piece = match kind {
            0..=159 => piece(kind).as_bytes().to_vec(),
            160..=183 => BROKEN[usize::from(kind) % BROKEN.len()].to_vec(),
            184..=199 => self.take(usize::from(kind) - 183).to_vec(),
            200..=215 => self.word(usize::from(kind) - 199),
            216..=223 => self.character().to_string().into_bytes(),
            224..=247 => {
                let longer = tokens.get(256..).unwrap_or_default();
                let number = usize::from(self.byte()) % longer.len().max(1);
                longer.get(number).cloned().unwrap_or_default()
            }
            248..=255 => return None,
        };
        Some(piece)
    }

    /// A word of a and b, eight letters for each of `num_bytes` bytes.
    fn word(&mut self, num_bytes: usize) -> Vec<u8> {
        let letters =
            |byte: &u8| (0..8).map(move |bit| b'a' + (byte >> bit & 1)).collect::<Vec<_>>();
        self.take(num_bytes).iter().flat_map(letters).collect()
    }

    fn character(&mut self) -> char {
        let number = [16, 8, 0].map(|shift| u32::from(self.byte()) << shift);
        char::from_u32(number.iter().sum::<u32>() % 0x11_0000).unwrap_or('\u{fffd}')
    }

    /// A number of repetitions: usually one, otherwise about the length of a block, the byte of a
    /// length, or 16 bits.
    fn times(&mut self) -> usize {
        let byte = self.byte();
        match byte {
            0..=215 => 1,
            216..=235 => usize::from(byte) - 214,
            236..=245 => usize::from(byte) - 176,
            246..=253 => usize::from(byte) + 6,
            254 => 16 * usize::from(self.byte()),
            255 => match self.byte() {
                last @ 248..=255 => 65_533 + usize::from(last - 248),
                other => usize::from(other),
            },
        }
    }
}

fn piece(number: u8) -> &'static str {
    let pieces = || PIECES.iter().flat_map(|line| line.split('|'));
    pieces().nth(usize::from(number) % pieces().count()).unwrap_or_default()
}

/// A byte, or one of the newest ids.
fn operand(byte: u8, num_merges: usize) -> u32 {
    let back = usize::from(byte & 63);
    match byte {
        0..=127 if byte < 64 || num_merges == 0 => SYMBOLS[back].into(),
        64..=127 => byte.into(),
        _ if num_merges == 0 => byte.into(),
        _ => u32::try_from(255 + num_merges - back % num_merges).unwrap_or(0),
    }
}
