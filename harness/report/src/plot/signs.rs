//! Where the number and the words of an arrow go, so that they cover nothing else.

/// A point of the picture.
pub(crate) type Point = (f64, f64);

/// Radius of the circle around a number, with some air.
const RADIUS: f64 = 11.0;
/// From the middle of the number to the start of the words beside it.
const BESIDE: f64 = 14.0;
/// From the middle of the number to the foot of the words below it.
const BELOW: f64 = 24.0;
const CHARACTER_WIDTH: f64 = 6.7;
const LINE_HEIGHT: f64 = 15.0;

/// A rectangle that is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Area {
    const fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// What is to be placed along an arrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'w> {
    /// Points of the arrow where the number may be, best first.
    pub(crate) points: &'w [Point],
    /// Characters of the words, if there are any.
    pub(crate) words: Option<usize>,
    /// Whether the words stand below the number, centred, rather than beside it.
    pub(crate) below: bool,
}

/// Where a number and its words are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sign {
    /// The middle of the number.
    pub(crate) number: Point,
    /// The foot of the words; `None` if there is no room for them.
    pub(crate) words: Option<Point>,
}

/// Places signs one after the other on what is still free.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signs {
    taken: Vec<Area>,
}

impl Signs {
    /// Nothing may cover these.
    pub(crate) const fn new(taken: Vec<Area>) -> Self {
        Self { taken }
    }

    /// The first point with room for number and words, else the first with room for the number,
    /// else the first of all.
    pub(crate) fn place(&mut self, wish: Wish<'_>) -> Sign {
        let number = |&(x, y): &Point| Area {
            left: x - RADIUS,
            right: x + RADIUS,
            top: y - RADIUS,
            bottom: y + RADIUS,
        };
        let words = |point: &Point| wish.words.map(|chars| words_area(*point, chars, wish.below));
        let free = |area: &Area| !self.taken.iter().any(|taken| taken.meets(area));
        let whole = |point: &&Point| free(&number(point)) && words(point).is_none_or(|w| free(&w));
        let found = wish.points.iter().find(whole);
        let has_words = found.is_some();
        let bare = || wish.points.iter().find(|point| free(&number(point)));
        let point = found.or_else(bare).or(wish.points.first()).copied().unwrap_or((0.0, 0.0));

        self.taken.push(number(&point));
        let area = words(&point).filter(|_| has_words);
        self.taken.extend(area);
        let foot = if wish.below { (0.0, BELOW) } else { (BESIDE, 4.0) };
        Sign { number: point, words: area.map(|_| (point.0 + foot.0, point.1 + foot.1)) }
    }
}

fn words_area((x, y): Point, chars: usize, below: bool) -> Area {
    let width = chars as f64 * CHARACTER_WIDTH;
    let (left, foot) = if below { (x - width / 2.0, y + BELOW) } else { (x + BESIDE, y + 4.0) };
    Area { left, right: left + width, top: foot - LINE_HEIGHT + 3.0, bottom: foot + 3.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words give way to what is there, numbers to each other; something is always placed.
    #[test]
    fn signs_give_way() {
        let bar = Area { left: 50.0, right: 150.0, top: 0.0, bottom: 40.0 };
        let mut signs = Signs::new(vec![bar]);
        let points = [(30.0, 20.0), (30.0, 80.0)];
        let wish = Wish { points: &points, words: Some(10), below: false };
        let first = signs.place(wish);
        assert_eq!(first.number, (30.0, 80.0), "beside the bar there is no room for words");
        assert!(first.words.is_some());
        let second = signs.place(wish);
        assert_eq!((second.number, second.words), ((30.0, 20.0), None));
        assert_eq!(signs.place(wish).number, (30.0, 20.0), "nothing is free: the best of all");
    }
}
