//! Rows of events as our own CSV and JSON lines have them: columns under the names of their fields, in base units.

use crate::text_rows::Rows;
use crate::{ReadOptions, Sink};
use latscope_event::{Batch, Clock, Context, Field, FieldSet, FieldType, MISSING_I64, MISSING_U64, TimeLiteral};
use std::ops::ControlFlow;

/// A time after September 2001 is one on the wall; no machine has been up that long.
const WALL_FROM_NS: i64 = 1_000_000_000_000_000_000;

/// Why rows are malformed.
pub const NO_TIME: &str = "no time";
pub const NO_LATENCY: &str = "no latency";
pub const NO_NUMBER: &str = "something other than an integer where one is required";
pub const NO_TEXT: &str = "something other than text where it is required";

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    Field(Field),
    /// The completion; its start follows where it is not given.
    End,
    /// The completion in wall-clock time, which gives the relation of the clocks.
    Wall,
}

impl Named {
    /// What is called so in our tables of events.
    pub fn parse(name: &str) -> Option<Named> {
        match name {
            "end_ns" => Some(Named::End),
            "wall" => Some(Named::Wall),
            name => Field::ALL.iter().copied().find(|field| field.name() == name).map(Named::Field),
        }
    }

    /// Whether these are the columns of events: a latency, and a moment.
    pub fn are_of_events(columns: impl IntoIterator<Item = Named> + Clone) -> bool {
        let has = |wanted: Named| columns.clone().into_iter().any(|column| column == wanted);
        has(Named::Field(Field::Latency)) && (has(Named::Field(Field::Time)) || has(Named::End))
    }

    fn field_type(self) -> FieldType {
        match self {
            Named::Field(field) => field.field_type(),
            Named::End => FieldType::Time,
            Named::Wall => FieldType::Text,
        }
    }
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Text(&'a [u8]),
    Signed(i64),
    Unsigned(u64),
}

/// The events of a file in the making.
pub struct EventRows<'a, 'b> {
    pub rows: Rows<'a, 'b>,
    has_clock: bool,
}

impl<'a, 'b> EventRows<'a, 'b> {
    /// For a file that has these fields at most.
    pub fn new(
        what: &str,
        file: &str,
        fields: FieldSet,
        options: &ReadOptions,
        sink: &'a mut Sink<'b>,
    ) -> EventRows<'a, 'b> {
        let context = Context::new(format!("{what}, {file}"), Clock::unanchored("relative"));
        EventRows { rows: Rows::new(context, Batch::new(options.fields.intersection(fields)), sink), has_clock: false }
    }

    /// Adds a row of the values that are not missing, each of the type of its column.
    pub fn add(&mut self, values: &[(Named, Value)]) -> Result<ControlFlow<()>, &'static str> {
        let value = |wanted: Named| values.iter().find(|(named, _)| *named == wanted).map(|&(_, value)| value);
        let moment = |named| match value(named) {
            Some(Value::Signed(ns)) => Some(ns),
            _ => None,
        };
        let Some(Value::Unsigned(latency_ns)) = value(Named::Field(Field::Latency)) else { return Err(NO_LATENCY) };
        let (start_ns, end_ns) = match (moment(Named::Field(Field::Time)), moment(Named::End)) {
            (Some(start_ns), _) => (start_ns, start_ns.saturating_add_unsigned(latency_ns)),
            (None, Some(end_ns)) => (end_ns.saturating_sub_unsigned(latency_ns), end_ns),
            (None, None) => return Err(NO_TIME),
        };
        // So far back it would be the value that stands for a missing one.
        if start_ns == MISSING_I64 {
            return Err(NO_TIME);
        }
        if let (false, Some(Value::Text(wall))) = (self.has_clock, value(Named::Wall)) {
            self.clock_of(wall, end_ns);
        }
        if self.rows.count == 0 && !self.has_clock && start_ns > WALL_FROM_NS {
            self.rows.context.clock = Clock::wall();
        }
        self.rows.context.cover(start_ns);
        self.rows.context.cover(end_ns);
        let batch = &mut self.rows.batch;
        batch.push_i64(Field::Time, start_ns);
        for &(named, value) in values {
            match (named, value) {
                (Named::Field(Field::Time), _) | (Named::End | Named::Wall, _) => {}
                (Named::Field(field), Value::Text(text)) => batch.push_text(field, Some(text)),
                (Named::Field(field), Value::Signed(number)) => batch.push_i64(field, number),
                (Named::Field(field), Value::Unsigned(number)) => batch.push_u64(field, number),
            }
        }
        Ok(self.rows.end_row())
    }

    /// The relation of the trace's clock to the wall, from a moment on both.
    fn clock_of(&mut self, wall: &[u8], end_ns: i64) {
        let wall = String::from_utf8_lossy(wall);
        let Ok(TimeLiteral::Unix(unix_ns)) = TimeLiteral::parse(&wall) else { return };
        let Some(to_unix_ns) = unix_ns.checked_sub(end_ns) else { return };
        self.has_clock = true;
        // Where only the second is known, it is written without decimals.
        let approximate = !wall.contains('.');
        self.rows.context.clock = match to_unix_ns {
            0 => Clock::wall(),
            _ => Clock { name: "trace".into(), to_unix_ns: Some(to_unix_ns), approximate },
        };
    }
}

/// A decimal number as the type of its column has it; none for what stands for a missing value there.
pub fn number(named: Named, text: &str) -> Option<Value<'static>> {
    match named.field_type() {
        FieldType::Time | FieldType::Number => {
            text.parse().ok().filter(|&number| number != MISSING_I64).map(Value::Signed)
        }
        FieldType::Duration | FieldType::Bytes => {
            text.parse().ok().filter(|&number| number != MISSING_U64).map(Value::Unsigned)
        }
        FieldType::Text => None,
    }
}

/// Whether a column holds texts.
pub fn is_text(named: Named) -> bool {
    named.field_type() == FieldType::Text
}
