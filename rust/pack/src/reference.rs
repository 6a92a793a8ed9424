//! Plain implementations of the other modules for tests, simple and slow.

/// (document, start, length) of each segment of each row.
pub(crate) type Rows = Vec<Vec<(u32, u32, u32)>>;

/// Best fit with lists; none if a document is longer than a row and must not be cut.
pub(crate) fn best_fit(lengths: &[u32], capacity: u32, keep_rest: bool) -> Option<Rows> {
    if !keep_rest && lengths.iter().any(|&length| length > capacity) {
        return None;
    }
    let mut left = lengths.to_vec();
    let mut rows = Rows::new();
    while left.iter().any(|&length| length > 0) {
        let (mut row, mut rest) = (vec![], capacity);
        while rest > 0 {
            let largest = |most: u32| {
                let fit = (0..left.len()).filter(|&number| (1..=most).contains(&left[number]));
                fit.rev().max_by_key(|&number| left[number])
            };
            let Some(number) = largest(rest).or_else(|| largest(u32::MAX).filter(|_| keep_rest))
            else {
                break;
            };
            let taken = left[number].min(rest);
            row.push((u32::try_from(number).unwrap(), lengths[number] - left[number], taken));
            left[number] -= taken;
            rest -= taken;
        }
        rows.push(row);
    }
    Some(rows)
}

/// Windows of a list of all tokens.
pub(crate) fn windows(lengths: &[u32], length: u32) -> Rows {
    let tokens: Vec<(u32, u32)> = (0..)
        .zip(lengths)
        .flat_map(|(number, &length)| (0..length).map(move |at| (number, at)))
        .collect();
    let starts = (0..tokens.len()).step_by(length as usize);
    let window = |start: usize| &tokens[start..tokens.len().min(start + length as usize + 1)];
    let joined = |row: &[(u32, u32)]| {
        let parts = row.chunk_by(|one, other| one.0 == other.0);
        parts.map(|part| (part[0].0, part[0].1, u32::try_from(part.len()).unwrap())).collect()
    };
    starts.map(|start| joined(window(start))).collect()
}

/// The buffer of nanochat's loader as a list.
pub(crate) struct Buffer {
    capacity: u32,
    least: usize,
    documents: Vec<(u64, u32)>,
    pushed: u64,
    row: Vec<(u64, u32)>,
    /// Complete rows, tokens in rows, discarded tokens, documents with discarded tokens.
    pub(crate) totals: [u64; 4],
}

impl Buffer {
    pub(crate) fn new(capacity: u32, buffer_size: usize) -> Self {
        let (documents, row) = (vec![], vec![]);
        Self { capacity, least: buffer_size, documents, pushed: 0, row, totals: [0; 4] }
    }

    pub(crate) fn push(&mut self, lengths: &[u32]) {
        self.documents.extend((self.pushed..).zip(lengths.iter().copied()));
        self.pushed += lengths.len() as u64;
    }

    pub(crate) fn needs_documents(&self) -> bool {
        self.documents.len() < self.least
    }

    pub(crate) fn pack(&mut self, most: u64) -> Vec<Vec<(u64, u32)>> {
        let mut rows = vec![];
        while (rows.len() as u64) < most && !self.needs_documents() {
            let rest = self.capacity - self.row.iter().map(|&(_, length)| length).sum::<u32>();
            let places = || 0..self.documents.len();
            let length = |&place: &usize| self.documents[place].1;
            let fitting = places().rev().filter(|place| length(place) <= rest).max_by_key(length);
            let place = fitting.or_else(|| places().min_by_key(length)).unwrap();
            let (number, length) = self.documents.remove(place);
            let taken = length.min(rest);
            self.row.push((number, taken));
            let full = taken == rest;
            let sums = [full.into(), taken, length - taken, (length > taken).into()];
            for (total, more) in self.totals.iter_mut().zip(sums) {
                *total += u64::from(more);
            }
            if full {
                rows.push(std::mem::take(&mut self.row));
            }
        }
        rows
    }
}

/// Inputs and targets, token by token; the columns are arrays, offsets, lengths, ends of rows.
pub(crate) fn fill(
    ids: &[Vec<u32>],
    masks: &[Option<Vec<u8>>],
    [which, offsets, lengths, rows]: [&[i64]; 4],
    length: usize,
    pad: i64,
) -> (Vec<i64>, Vec<i64>) {
    let index = |number: i64| usize::try_from(number).unwrap();
    let (mut inputs, mut targets) = (vec![], vec![]);
    for ends in rows.windows(2) {
        let mut tokens = vec![];
        for segment in index(ends[0])..index(ends[1]) {
            let array = index(which[segment]);
            let start = index(offsets[segment]);
            for at in start..start + index(lengths[segment]) {
                let counts = masks[array].as_ref().is_none_or(|mask| mask[at] != 0);
                tokens.push((i64::from(ids[array][at]), counts));
            }
        }
        for at in 0..length {
            inputs.push(tokens.get(at).map_or(pad, |&(id, _)| id));
            let next = tokens.get(at + 1).filter(|&&(_, counts)| counts);
            targets.push(next.map_or(-1, |&(id, _)| id));
        }
    }
    (inputs, targets)
}
