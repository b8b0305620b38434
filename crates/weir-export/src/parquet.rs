//! Parquet with one row group and without compression, so that any reader can read it. Every column is optional.

use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::Type;

use crate::ExportError;
use crate::table::{Kind, Table, Value};

/// Renders the table as a Parquet file.
pub(crate) fn draw(table: &Table) -> Result<Vec<u8>, ExportError> {
    let fields = table.columns.iter().map(|(name, kind)| Ok(Arc::new(field(name, *kind)?)));
    let fields = fields.collect::<Result<_, ParquetError>>()?;
    let schema = Type::group_type_builder("weir").with_fields(fields).build()?;
    let properties =
        WriterProperties::builder().set_created_by(format!("weir {}", env!("CARGO_PKG_VERSION")));
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for (place, (_, kind)) in table.columns.iter().enumerate() {
        let values = table.rows.iter().map(|row| &row[place]);
        match kind {
            Kind::Integer => column::<Int64Type, _>(&mut group, values, |value| match value {
                // Parquet stores an unsigned value as the signed value with the same bits.
                Value::Integer(value) => Some(*value as i64),
                _ => None,
            })?,
            Kind::Float => column::<DoubleType, _>(&mut group, values, |value| match value {
                Value::Float(value) => Some(*value),
                _ => None,
            })?,
            Kind::Text => column::<ByteArrayType, _>(&mut group, values, |value| match value {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            })?,
        }
    }
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn field(name: &str, kind: Kind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Integer => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
        Kind::Float => (PhysicalType::DOUBLE, None),
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

/// Writes the next column: the values without the missing ones, and one flag per row that marks whether its value is
/// present.
fn column<'v, T: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = &'v Value>,
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.map(of).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = values.into_iter().flatten().collect();
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    column.typed::<T>().write_batch(&there, Some(&levels), None)?;
    column.close()
}
