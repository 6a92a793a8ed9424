//! Several steps of splitting, as a `Sequence` of `Split` in the library `tokenizers`: each step
//! splits every piece of the step before on its own, as if it were a text.
//!
//! The parts of a piece are the matches of the step's pattern and the gaps between them, in this
//! order, without empty ones. An inverted step takes the gaps for matches, and the matches for gaps.
//! The behavior joins parts to pieces.

use std::sync::Arc;

use crate::Error;
use crate::cpu::Level;
use crate::split::class_runs::ClassRuns;
use crate::split::engine::Engine;
use crate::split::family::Family;
use crate::split::lexer::Lexer;
use crate::split::matcher::{Matcher, check_length};
use crate::split::scanner::Scanner;
use crate::split::work::Work;
use crate::split::{GapRule, Kind, Stuck};

/// Limit of steps: the table of each can take 32 MiB.
const MAX_STEPS: usize = 16;

/// Pieces of fewer bytes are split faster by the lexer than by the scanner, which begins with a
/// block of 64 bytes. After a step that splits off digits this saves 2 to 8% of encoding English.
const SCANNED_BYTES: usize = 192;

/// How the parts of a piece become pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// Each part is a piece.
    Isolated,
    /// Adjacent matches are one piece, and so are adjacent gaps (of an inverted step).
    Contiguous,
    /// A match directly after a gap belongs to the piece of the gap.
    MergedWithPrevious,
    /// A match directly before a gap belongs to the piece of the gap.
    MergedWithNext,
}

/// A step of splitting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The regular expression.
    pub pattern: String,
    /// How its matches become pieces.
    pub behavior: Behavior,
    /// Whether matches and gaps change roles.
    pub invert: bool,
}

impl Step {
    /// An isolated step.
    pub(super) fn plain(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned(), behavior: Behavior::Isolated, invert: false }
    }

    /// Whether the pieces are those of the pattern alone.
    pub(super) fn is_plain(&self) -> bool {
        self.behavior == Behavior::Isolated && !self.invert
    }
}

/// Compiled steps.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    stages: Vec<Stage>,
}

/// A compiled step.
#[derive(Debug, Clone)]
struct Stage {
    step: Step,
    finder: Finder,
}

/// What finds the matches of a step.
#[derive(Debug, Clone)]
enum Finder {
    Runs(Arc<ClassRuns>),
    Matcher(Matcher),
}

/// The scanner that splits like `steps`, if there is one.
///
/// # Errors
///
/// Fails if a pattern is too long, or as `Level::in_use`.
pub(super) fn together(steps: &[Step]) -> Result<Option<Scanner>, Error> {
    let [digits, apart, last] = steps else { return Ok(None) };
    let patterns = [digits, apart, last].map(|step| step.pattern.as_str());
    patterns.iter().try_for_each(|pattern| check_length(pattern))?;
    let family = if steps.iter().all(Step::is_plain) { Family::of_steps(patterns) } else { None };
    let level = Level::in_use()?;
    Ok(family.map(|family| Scanner::new(Lexer::new(family), level)))
}

impl Sequence {
    pub(super) fn new(steps: &[Step]) -> Result<Self, Error> {
        if steps.is_empty() || steps.len() > MAX_STEPS {
            let number = steps.len();
            let reason = format!("there are {number} steps: it must be 1 to {MAX_STEPS}");
            return Err(Error::Pattern { reason });
        }
        Ok(Self { stages: steps.iter().map(Stage::new).collect::<Result<_, _>>()? })
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().map(|stage| &stage.step)
    }

    /// The slowest engine of all steps.
    pub(super) fn engine(&self) -> &'static str {
        let engines = self.stages.iter().map(|stage| match &stage.finder {
            Finder::Runs(_) => "lexer",
            Finder::Matcher(matcher) => matcher.engine.name(),
        });
        let speed = |name: &&str| ["lexer", "table", "regex"].iter().position(|it| it == name);
        engines.max_by_key(speed).unwrap_or("lexer")
    }

    /// Calls `visit` with each piece of the last step.
    pub(super) fn visit_text<'t>(
        &self,
        text: &'t str,
        work: &Work,
        visit: &mut dyn FnMut(&'t str),
    ) -> Result<(), Stuck> {
        split(&self.stages, text, work, visit)
    }
}

/// Splits `text`, which must not be empty, by the first of `stages`, and its pieces by the others.
fn split<'t>(
    stages: &[Stage],
    text: &'t str,
    work: &Work,
    visit: &mut dyn FnMut(&'t str),
) -> Result<(), Stuck> {
    let Some((stage, later)) = stages.split_first() else {
        visit(text);
        return Ok(());
    };
    if later.is_empty() && stage.step.is_plain() {
        return stage.parts(text, work, &mut |part, _| visit(part));
    }
    let (mut start, mut stuck) = (0, Ok(()));
    let mut split_piece = |piece: &'t str| {
        if stuck.is_ok() {
            stuck = split(later, piece, work, visit)
                .map_err(|stuck| Stuck { offset: start + stuck.offset, ..stuck });
        }
        start += piece.len();
    };
    if stage.step.is_plain() {
        stage.parts(text, work, &mut |part, _| split_piece(part))?;
    } else {
        let mut joined = Joined::new(text, stage.step.behavior, &mut split_piece);
        let invert = stage.step.invert;
        stage
            .parts(text, work, &mut |part, is_match| joined.add(part.len(), is_match != invert))?;
        joined.finish();
    }
    stuck
}

impl Stage {
    fn new(step: &Step) -> Result<Self, Error> {
        check_length(&step.pattern)?;
        let finder = match ClassRuns::new(&step.pattern) {
            Some(runs) => Finder::Runs(Arc::new(runs)),
            None => Finder::Matcher(Matcher::new(&step.pattern)?),
        };
        Ok(Self { step: step.clone(), finder })
    }

    /// Calls `visit` with each match in `text` and each gap between them, and whether it is a match.
    fn parts<'t>(
        &self,
        text: &'t str,
        work: &Work,
        visit: &mut impl FnMut(&'t str, bool),
    ) -> Result<(), Stuck> {
        match &self.finder {
            Finder::Runs(runs) => {
                runs.visit_text(text, visit);
                Ok(())
            }
            Finder::Matcher(matcher) => {
                let mut start = 0;
                let mut visit_part = |length: usize, is_match| {
                    let end = start + length;
                    visit(&text[std::mem::replace(&mut start, end)..end], is_match);
                };
                match &matcher.engine {
                    Engine::Scanner(scanner) if text.len() < SCANNED_BYTES => {
                        scanner.lexer().split(text, |span| visit_part(span.len(), true));
                        Ok(())
                    }
                    _ => matcher.visit_text(text, GapRule::Spans, work, &mut |span, kind| {
                        visit_part(span.len(), kind == Kind::Match);
                    }),
                }
            }
        }
    }
}

/// Joins the parts of a text to pieces.
struct Joined<'t, 'v, V> {
    text: &'t str,
    behavior: Behavior,
    visit: &'v mut V,
    /// Start and end of the parts that are no complete piece yet.
    start: usize,
    end: usize,
    /// Whether the last part is a match.
    is_match: bool,
}

impl<'t, 'v, V: FnMut(&'t str)> Joined<'t, 'v, V> {
    fn new(text: &'t str, behavior: Behavior, visit: &'v mut V) -> Self {
        Self { text, behavior, visit, start: 0, end: 0, is_match: false }
    }

    /// Adds the next part.
    fn add(&mut self, length: usize, is_match: bool) {
        let belongs = match self.behavior {
            Behavior::Isolated => false,
            Behavior::Contiguous => self.is_match == is_match,
            Behavior::MergedWithPrevious => !self.is_match && is_match,
            Behavior::MergedWithNext => self.is_match && !is_match,
        };
        if !belongs {
            self.finish();
        }
        self.end += length;
        self.is_match = is_match;
    }

    /// Visits the last piece, if there is one.
    fn finish(&mut self) {
        if self.end > self.start {
            (self.visit)(&self.text[self.start..self.end]);
            self.start = self.end;
        }
    }
}

#[cfg(test)]
mod tests;
