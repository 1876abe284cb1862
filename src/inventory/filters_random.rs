//! Filters that choose and order: `random`, `shuffle`, `permutations`. With a seed they give what Ansible gives.

use minijinja::Error;
use minijinja::value::Value as Jinja;

use super::filters::{Call, Outcome, engine, native, wrong};
use super::random::Random;
use super::text;
use super::value::{Data, Value};
use crate::diagnose::Place;

/// Most rows of a result.
const MAX_ROWS: usize = 100_000;

fn source(call: &Call<'_>) -> Result<Random, Error> {
    match call.arg(usize::MAX, "seed")?.filter(|seed| !seed.is_none()) {
        None => Random::system().map_err(no_bytes),
        Some(seed) => Ok(match native(&seed)?.data {
            Data::Int(seed) => Random::of_number(seed),
            Data::Bool(seed) => Random::of_number(i128::from(seed)),
            Data::Str(seed) => Random::of_text(&seed),
            _ => return Err(wrong(format!("{}: the seed is text or a whole number", call.name))),
        }),
    }
}

fn no_bytes(error: std::io::Error) -> Error {
    wrong(format!("there are no random bytes: {error}"))
}

/// `random(start=0, step=1, seed=none)`: of a number one below it, of a list one of it.
pub(crate) fn random(call: &Call<'_>) -> Outcome {
    let mut random = source(call)?;
    let start = call.arg_int(0, "start")?;
    let step = call.arg_int(1, "step")?;
    match call.native()?.data {
        Data::Int(end) => {
            let (start, step) = (i128::from(start.unwrap_or(0)), i128::from(step.unwrap_or(1)));
            let width = end - start;
            if width <= 0 || step <= 0 {
                return Err(wrong("random: the range is empty"));
            }
            let count =
                u64::try_from((width + step - 1) / step).map_err(|_| wrong("random: the range is too large"))?;
            let at = random.below(count).map_err(no_bytes)?;
            i64::try_from(start + step * i128::from(at))
                .map(Jinja::from)
                .map_err(|_| wrong("random: the range is too large"))
        }
        Data::List(list) => {
            if start.is_some() || step.is_some() {
                return Err(wrong("random: start and step are for numbers"));
            }
            let at = random.below(list.len() as u64).map_err(no_bytes)?;
            let found = usize::try_from(at).ok().and_then(|at| list.get(at));
            Ok(engine(found.ok_or_else(|| wrong("random: the list is empty"))?))
        }
        _ => Err(wrong("random needs a whole number or a list")),
    }
}

/// `shuffle(seed=none)`.
pub(crate) fn shuffle(call: &Call<'_>) -> Outcome {
    let mut random = source(call)?;
    let value = call.native()?;
    let Data::List(mut list) = value.data else {
        return Err(wrong("shuffle needs a list"));
    };
    for i in (1..list.len()).rev() {
        let j = random.below(i as u64 + 1).map_err(no_bytes)?;
        list.swap(i, usize::try_from(j).unwrap_or(i));
    }
    Ok(engine(&Value::new(Data::List(list), Place::whole(""))))
}

/// `permutations(size)`: all orders of so many of a list.
pub(crate) fn permutations(call: &Call<'_>) -> Outcome {
    let value = call.native()?;
    let Data::List(items) = value.data else {
        return Err(wrong(format!(
            "permutations needs a list, not {}",
            text::display(&value)
        )));
    };
    let size = match call.arg_int(0, "set_size")? {
        Some(size) => usize::try_from(size).map_err(|_| wrong("permutations: negative size"))?,
        None => items.len(),
    };
    let mut rows = Vec::new();
    order(&items, size, &mut Vec::new(), &mut rows)?;
    Ok(engine(&Value::new(Data::List(rows), Place::whole(""))))
}

fn order(items: &[Value], size: usize, chosen: &mut Vec<usize>, rows: &mut Vec<Value>) -> Result<(), Error> {
    if chosen.len() == size {
        if rows.len() >= MAX_ROWS {
            return Err(wrong(format!("permutations: more than {MAX_ROWS}")));
        }
        let row = chosen.iter().map(|i| items[*i].clone()).collect();
        rows.push(Value::new(Data::List(row), Place::whole("")));
        return Ok(());
    }
    for i in 0..items.len() {
        if chosen.contains(&i) {
            continue;
        }
        chosen.push(i);
        order(items, size, chosen, rows)?;
        chosen.pop();
    }
    Ok(())
}
