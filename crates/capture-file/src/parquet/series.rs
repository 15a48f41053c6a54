//! A series of histograms in Parquet: a row for each interval and group, with the non-empty buckets as two lists.

use super::groups::Groups;
use super::read::{context, integers, load, next, open};
use super::{SERIES_KEY, close, properties, value};
use crate::arrow_columns::io_error;
use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Error, Position, ReadOptions};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use latscope_event::{Anomaly, Context};
use latscope_histogram::{Grid, Histogram, Sparse, Totals};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::schema::types::ColumnPath;
use std::io::{self, Write};
use std::sync::Arc;

/// Columns before the groups, and after them; the last one only when cells add up something other than events.
const BEFORE: [&str; 2] = ["time_ns", "width_ns"];
const TOTALS: [&str; 5] = ["grid", "count", "sum_ns", "min_ns", "max_ns"];
/// Not known by every source.
const BYTES: &str = "bytes";
const LISTS: [&str; 3] = ["k", "n", "w"];
/// What waited at the end of the interval: how many, the age of the oldest, and the buckets of their ages.
const WAITING: &str = "waiting";
const OLDEST: &str = "oldest_ns";
const AGES: [&str; 2] = ["waiting_k", "waiting_n"];
/// Rows that are encoded or decoded together; a row may have thousands of buckets.
const CHUNK_ROWS: usize = 1024;
/// Row groups end here, so that memory stays bounded.
const GROUP_BYTES: usize = 64 << 20;

/// Writes a series. Rows without counts are left out.
///
/// # Errors
/// When a row has another number of group values than the header, or the disk is full.
pub fn write_series_parquet<W: Write + Send>(
    to: W,
    header: &SeriesHeader,
    context: &Context,
    rows: impl IntoIterator<Item = SeriesRow>,
) -> io::Result<W> {
    write(to, header, context, rows, false)
}

/// Writes a series with what waited.
///
/// # Errors
/// As [`write_series_parquet`].
pub fn write_table<W: Write + Send>(
    to: W,
    header: &SeriesHeader,
    context: &Context,
    rows: impl IntoIterator<Item = SeriesRow>,
) -> io::Result<W> {
    write(to, header, context, rows, true)
}

fn write<W: Write + Send>(
    to: W,
    header: &SeriesHeader,
    context: &Context,
    rows: impl IntoIterator<Item = SeriesRow>,
    with_waiting: bool,
) -> io::Result<W> {
    let schema = schema(header, with_waiting)?;
    let mut properties = properties();
    let repeating = header.group_fields.iter().map(String::as_str).chain(["time_ns", "width_ns", "grid"]);
    for name in repeating {
        properties = properties.set_column_dictionary_enabled(ColumnPath::new(vec![name.into()]), true);
    }
    let mut groups = Groups::create(to, &schema, properties.build())?;
    let (mut held, mut held_bytes) = (Vec::new(), 0);
    let has_any = |row: &SeriesRow| row.histogram.totals().count > 0 || with_waiting && row.waiting.is_some();
    let mut rows = rows.into_iter().filter(has_any);
    loop {
        let chunk: Vec<_> = rows.by_ref().take(CHUNK_ROWS).collect();
        if chunk.is_empty() {
            break;
        }
        if chunk.iter().any(|row| row.groups.len() != header.group_fields.len()) {
            return Err(io::Error::other("A row of the series and its header differ in the number of groups."));
        }
        let records = records(&chunk, header, schema.clone()).map_err(io_error)?;
        held_bytes += records.get_array_memory_size();
        held.push(records);
        if held_bytes >= GROUP_BYTES {
            groups.write(&held)?;
            held.clear();
            held_bytes = 0;
        }
    }
    groups.write(&held)?;
    let description = serde_json::json!({
        "group_fields": header.group_fields, "value": header.value, "weight": header.weight,
    });
    close(groups, context, &[(SERIES_KEY, description.to_string())])
}

fn schema(header: &SeriesHeader, with_waiting: bool) -> io::Result<SchemaRef> {
    let integer = |&name: &&str| {
        let data_type = if name == "grid" { DataType::Int32 } else { DataType::Int64 };
        Field::new(name, data_type, false)
    };
    let mut columns: Vec<_> = BEFORE.iter().map(integer).collect();
    columns.extend(header.group_fields.iter().map(|name| Field::new(name, DataType::Utf8, false)));
    columns.extend(TOTALS.iter().map(integer));
    columns.push(Field::new(BYTES, DataType::Int64, true));
    columns.push(Field::new("k", DataType::List(element(DataType::Int32)), false));
    columns.push(Field::new("n", DataType::List(element(DataType::Int64)), false));
    if weighted(header) {
        columns.push(Field::new("w", DataType::List(element(DataType::Int64)), true));
    }
    if with_waiting {
        columns.push(Field::new(WAITING, DataType::Int64, true));
        columns.push(Field::new(OLDEST, DataType::Int64, true));
        columns.push(Field::new(AGES[0], DataType::List(element(DataType::Int32)), false));
        columns.push(Field::new(AGES[1], DataType::List(element(DataType::Int64)), false));
    }
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name() == column.name()) {
            let message =
                format!("The series cannot be grouped by {} in Parquet: a column has that name.", column.name());
            return Err(io::Error::other(message));
        }
    }
    Ok(Arc::new(Schema::new(columns)))
}

fn weighted(header: &SeriesHeader) -> bool {
    header.weight != "count"
}

/// The element of a list, under the name that the Parquet format gives it.
fn element(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", data_type, false))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn records(rows: &[SeriesRow], header: &SeriesHeader, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
    let totals = |pick: fn(&Totals) -> i64| -> ArrayRef {
        Arc::new(
            rows.iter().map(|row| pick(row.histogram.totals())).collect::<Vec<_>>().into_iter().collect::<Int64Array>(),
        )
    };
    let offsets = || OffsetBuffer::<i32>::from_lengths(rows.iter().map(|row| row.histogram.indices().len()));
    let list = |data_type, values: ArrayRef| ListArray::try_new(element(data_type), offsets(), values, None);
    let int64 = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let mut arrays: Vec<ArrayRef> = vec![
        int64(rows.iter().map(|row| row.time_ns).collect()),
        int64(rows.iter().map(|row| signed(row.width_ns)).collect()),
    ];
    for at in 0..header.group_fields.len() {
        arrays.push(Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.groups[at]))));
    }
    arrays.push(Arc::new(rows.iter().map(|row| Some(i32::from(row.histogram.grid().power()))).collect::<Int32Array>()));
    arrays.push(totals(|totals| signed(totals.count)));
    arrays.push(totals(|totals| i64::try_from(totals.sum).unwrap_or(i64::MAX)));
    arrays.push(totals(|totals| signed(totals.min)));
    arrays.push(totals(|totals| signed(totals.max)));
    let bytes = rows.iter().map(|row| row.histogram.totals().bytes.map(signed));
    arrays.push(Arc::new(bytes.collect::<Int64Array>()));
    let indices = rows.iter().flat_map(|row| row.histogram.indices()).map(|&index| index as i32);
    arrays.push(Arc::new(list(DataType::Int32, Arc::new(Int32Array::from_iter_values(indices)))?));
    let counts = rows.iter().flat_map(|row| row.histogram.counts()).map(|&count| signed(count));
    arrays.push(Arc::new(list(DataType::Int64, int64(counts.collect()))?));
    if weighted(header) {
        let weights = rows.iter().flat_map(|row| row.histogram.weights()).flatten().map(|&weight| signed(weight));
        let lengths = rows.iter().map(|row| row.histogram.weights().map_or(0, <[u64]>::len));
        let present: NullBuffer = rows.iter().map(|row| row.histogram.weights().is_some()).collect();
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        arrays.push(Arc::new(ListArray::try_new(
            element(DataType::Int64),
            offsets,
            int64(weights.collect()),
            Some(present),
        )?));
    }
    if schema.column_with_name(WAITING).is_some() {
        waiting_columns(rows, &mut arrays)?;
    }
    RecordBatch::try_new(schema, arrays)
}

/// How many waited, since when the oldest did, and the buckets of their ages, on the grid of the row.
fn waiting_columns(rows: &[SeriesRow], arrays: &mut Vec<ArrayRef>) -> Result<(), ArrowError> {
    let on_grid = |row: &SeriesRow| row.waiting.as_ref().map(|ages| regridded(ages, row.histogram.grid()));
    let ages: Vec<Option<Sparse>> = rows.iter().map(on_grid).collect();
    let number = |pick: fn(&Totals) -> u64| -> ArrayRef {
        Arc::new(ages.iter().map(|ages| ages.as_ref().map(|ages| signed(pick(ages.totals())))).collect::<Int64Array>())
    };
    arrays.push(number(|totals| totals.count));
    arrays.push(number(|totals| totals.max));
    let lengths = ages.iter().map(|ages| ages.as_ref().map_or(0, |ages| ages.indices().len()));
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let indices = ages.iter().flatten().flat_map(Sparse::indices).map(|&index| index as i32);
    let indices: ArrayRef = Arc::new(Int32Array::from_iter_values(indices));
    arrays.push(Arc::new(ListArray::try_new(element(DataType::Int32), offsets.clone(), indices, None)?));
    let counts = ages.iter().flatten().flat_map(Sparse::counts).map(|&count| signed(count));
    let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(counts));
    arrays.push(Arc::new(ListArray::try_new(element(DataType::Int64), offsets, counts, None)?));
    Ok(())
}

/// On another grid: a bucket of a coarser one counts at its lower edge.
fn regridded(ages: &Sparse, grid: Grid) -> Sparse {
    if ages.grid().power() >= grid.power() {
        return ages.folded(grid);
    }
    let mut all = Histogram::new(grid, false);
    ages.buckets().for_each(|(index, count, _)| all.record_many(ages.grid().lower(index), count, 0));
    all.to_sparse()
}

/// Opens a series.
pub fn open_series(input: Input<'static>, _: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    Ok(Box::new(ParquetSeries::open(input)?))
}

/// The rows of a series, one after the other. After an error there are no more.
struct ParquetSeries {
    header: SeriesHeader,
    context: Context,
    name: String,
    /// None after an error.
    records: Option<ParquetRecordBatchReader>,
    rows: std::vec::IntoIter<SeriesRow>,
}

impl ParquetSeries {
    fn open(input: Input) -> Result<ParquetSeries, Error> {
        let name = input.name.clone();
        let fail = |message: String| Error::new(&name, Position::File, message);
        let file = input.seekable()?;
        let metadata = load(&file).map_err(fail)?;
        let description = value(&metadata, SERIES_KEY)
            .ok_or_else(|| fail("This Parquet file is not a series of histograms written by latscope.".into()))?;
        let header = header(description).ok_or_else(|| fail("The description of the series is damaged.".into()))?;
        let mut context = context(&metadata, &name).map_err(fail)?;
        let (records, damaged) = open(file, metadata, ProjectionMask::all(), CHUNK_ROWS, None).map_err(fail)?;
        context.tally.add(Anomaly::DamagedRecords, damaged);
        Ok(ParquetSeries { header, context, name, records: Some(records), rows: Vec::new().into_iter() })
    }
}

impl SeriesRows for ParquetSeries {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn is_uneven(&self) -> bool {
        false
    }
}

impl Iterator for ParquetSeries {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let records = next(self.records.as_mut()?)?;
            match records.and_then(|records| rows(&records, &self.header)) {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(why) => {
                    self.records = None;
                    return Some(Err(Error::new(&self.name, Position::File, why)));
                }
            }
        }
    }
}

fn header(description: &str) -> Option<SeriesHeader> {
    let description: serde_json::Value = serde_json::from_str(description).ok()?;
    let text = |key: &str| Some(description.get(key)?.as_str()?.to_string());
    let groups = description.get("group_fields")?.as_array()?;
    let group_fields = groups.iter().map(|name| Some(name.as_str()?.to_string())).collect::<Option<_>>()?;
    Some(SeriesHeader { group_fields, value: text("value")?, weight: text("weight")? })
}

fn rows(records: &RecordBatch, header: &SeriesHeader) -> Result<Vec<SeriesRow>, String> {
    checked_rows(records, header).map_err(|why| format!("The series is damaged: {why}."))
}

fn checked_rows(records: &RecordBatch, header: &SeriesHeader) -> Result<Vec<SeriesRow>, String> {
    let column = |name: &str| records.column_by_name(name).ok_or_else(|| format!("the column {name} is missing"));
    let numbers = |name: &str| {
        let values = integers(column(name)?, -1).ok_or_else(|| format!("the column {name} does not have integers"))?;
        Ok::<_, String>(values)
    };
    let [times, widths] = [numbers(BEFORE[0])?, numbers(BEFORE[1])?];
    let [grids, counts, sums, mins, maxs] =
        [numbers(TOTALS[0])?, numbers(TOTALS[1])?, numbers(TOTALS[2])?, numbers(TOTALS[3])?, numbers(TOTALS[4])?];
    // Files of before do not have it; missing values are negative.
    let bytes = records.column_by_name(BYTES).and_then(|column| integers(column, -1));
    let list = |name: &str| {
        let list =
            column(name)?.as_list_opt::<i32>().ok_or_else(|| format!("the column {name} does not have lists"))?;
        let values = integers(list.values(), -1).ok_or_else(|| format!("the column {name} does not have integers"))?;
        Ok::<_, String>((list.clone(), values))
    };
    let [indices, bucket_counts] = [list(LISTS[0])?, list(LISTS[1])?];
    let weights = if weighted(header) { Some(list(LISTS[2])?) } else { None };
    // Tables of hubs have it, from some version on.
    let waiting = match records.column_by_name(WAITING) {
        Some(_) => Some((numbers(WAITING)?, numbers(OLDEST)?, list(AGES[0])?, list(AGES[1])?)),
        None => None,
    };
    let groups = header.group_fields.iter().map(|name| texts(column(name)?, name)).collect::<Result<Vec<_>, _>>()?;
    let at_row = |row: usize| {
        let part = |(list, values): &(ListArray, Vec<i64>)| -> Option<Vec<u64>> {
            let (start, end) = (list.value_offsets()[row], list.value_offsets()[row + 1]);
            let values = values.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
            values.iter().map(|&value| u64::try_from(value).ok()).collect()
        };
        let number = |values: &[i64]| u64::try_from(values[row]).ok();
        let mut totals = Totals {
            count: number(&counts)?,
            sum: number(&sums)?.into(),
            min: number(&mins)?,
            max: number(&maxs)?,
            bytes: bytes.as_ref().and_then(|bytes| number(bytes)),
        };
        let grid = u8::try_from(grids[row]).ok().and_then(Grid::with_power)?;
        let indices = part(&indices)?.into_iter().map(|index| u32::try_from(index).ok()).collect::<Option<Vec<_>>>()?;
        let weights = match &weights {
            Some(weights) if weights.0.is_valid(row) => Some(part(weights)?),
            _ => None,
        };
        let fits =
            |bound: u64, index: Option<&u32>| bound == i64::MAX as u64 || index == Some(&(grid.index(bound) as u32));
        let waiting = match &waiting {
            Some((many, oldest, ages, counts)) if many[row] > 0 => {
                let ages =
                    part(ages)?.into_iter().map(|index| u32::try_from(index).ok()).collect::<Option<Vec<_>>>()?;
                Some(waited(grid, ages, part(counts)?, number(many)?, number(oldest)?)?)
            }
            _ => None,
        };
        if totals.count == 0 {
            (totals.min, totals.max) = (u64::MAX, 0);
        } else if !fits(totals.min, indices.first()) || !fits(totals.max, indices.last()) || totals.min > totals.max {
            return None;
        }
        let histogram = Sparse::from_parts(grid, indices, part(&bucket_counts)?, weights, totals).ok()?;
        let width_ns = number(&widths).filter(|&width| width > 0)?;
        let groups = groups.iter().map(|group| group[row].clone()).collect();
        Some(SeriesRow { time_ns: times[row], width_ns, groups, histogram, waiting })
    };
    (0..records.num_rows())
        .map(|row| at_row(row).ok_or_else(|| format!("the histogram that starts at {} ns is inconsistent", times[row])))
        .collect()
}

/// The ages of what waited; their sum is that of the lower edges of their buckets.
fn waited(grid: Grid, indices: Vec<u32>, counts: Vec<u64>, count: u64, oldest_ns: u64) -> Option<Sparse> {
    let max = if oldest_ns >= i64::MAX as u64 { grid.lower(*indices.last()? as usize) } else { oldest_ns };
    let last =
        *indices.last().filter(|&&last| last as usize <= grid.len() && last as usize == grid.index(max))? as usize;
    let edges = indices.iter().zip(&counts).map(|(&index, &count)| (index as usize, count));
    let edges = edges.map(|(index, count)| u128::from(grid.lower(index.min(last))) * u128::from(count));
    let totals = Totals { count, sum: edges.sum(), min: grid.lower(*indices.first()? as usize), max, bytes: None };
    Sparse::from_parts(grid, indices, counts, None, totals).ok()
}

fn texts(array: &ArrayRef, name: &str) -> Result<Vec<String>, String> {
    let owned = |text: Option<&str>| text.unwrap_or_default().to_string();
    match array.data_type() {
        DataType::Dictionary(_, _) => {
            let coded = array.as_dictionary_opt::<Int32Type>().and_then(|coded| coded.downcast_dict::<StringArray>());
            Ok(coded.ok_or_else(|| format!("the column {name} does not have text"))?.into_iter().map(owned).collect())
        }
        DataType::Utf8 => Ok(array.as_string::<i32>().iter().map(owned).collect()),
        _ => Err(format!("the column {name} does not have text")),
    }
}
