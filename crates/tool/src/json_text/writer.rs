//! `serde` serialiser that writes JSON.

use serde::Serialize;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::Texts;
use super::digits::{write_number, write_signed};
use super::texts::quote_name;
use super::written::RAW;

pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    texts: Texts,
    /// True if the next string is already JSON.
    is_raw: bool,
}

/// List or map that is being written.
pub(super) struct Parts<'a, 'b> {
    writer: &'a mut Writer<'b>,
    first: bool,
    close: &'static [u8],
}

impl<'b> Writer<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>, texts: Texts) -> Self {
        Writer { out, texts, is_raw: false }
    }

    #[inline]
    fn parts(&mut self, open: &[u8], close: &'static [u8]) -> Parts<'_, 'b> {
        self.out.extend_from_slice(open);
        Parts { writer: self, first: true, close }
    }

    /// Like `begin_compound`, for the content of an enum variant.
    fn variant(&mut self, name: &'static str, open: &[u8], close: &'static [u8]) -> Parts<'_, 'b> {
        self.out.push(b'{');
        quote_name(self.out, name);
        self.out.push(b':');
        self.parts(open, close)
    }

    fn number(&mut self, number: impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(&mut *self.out, &number)
    }
}

impl Parts<'_, '_> {
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.comma();
        item.serialize(&mut *self.writer)
    }

    #[inline]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        if !self.writer.is_raw {
            self.comma();
            quote_name(self.writer.out, name);
            self.writer.out.push(b':');
        }
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
    }

    #[inline]
    fn close(self) {
        self.writer.out.extend_from_slice(self.close);
    }
}

macro_rules! other_numbers {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, number: $type) -> Result<(), Error> {
            self.number(number)
        })*
    };
}

macro_rules! whole_numbers {
    ($write:ident: $($name:ident: $type:ty),*) => {
        $(fn $name(self, number: $type) -> Result<(), Error> {
            $write(self.out, number.into());
            Ok(())
        })*
    };
}

impl<'a, 'b> Serializer for &'a mut Writer<'b> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'a, 'b>;
    type SerializeTuple = Parts<'a, 'b>;
    type SerializeTupleStruct = Parts<'a, 'b>;
    type SerializeTupleVariant = Parts<'a, 'b>;
    type SerializeMap = Parts<'a, 'b>;
    type SerializeStruct = Parts<'a, 'b>;
    type SerializeStructVariant = Parts<'a, 'b>;

    whole_numbers!(write_signed: serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64);
    whole_numbers!(write_number: serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);
    other_numbers!(serialize_i128: i128, serialize_u128: u128, serialize_f32: f32, serialize_f64: f64);

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        match std::mem::take(&mut self.is_raw) {
            true => self.texts.raw(self.out, value),
            false => self.texts.quote(self.out, value),
        }
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        quote_name(self.out, variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut holder = self.parts(b"{", b"}");
        holder.field(variant, value)?;
        holder.close();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.parts(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.parts(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.parts(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.parts(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Parts<'a, 'b>, Error> {
        if name == RAW {
            self.is_raw = true;
            return Ok(self.parts(b"", b""));
        }
        Ok(self.parts(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, 'b>, Error> {
        Ok(self.variant(variant, b"{", b"}}"))
    }
}

macro_rules! lists {
    ($($list:ident, $item:ident);*) => {
        $(impl $list for Parts<'_, '_> {
            type Ok = ();
            type Error = Error;

            fn $item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                self.item(item)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

lists!(
    SerializeSeq, serialize_element;
    SerializeTuple, serialize_element;
    SerializeTupleStruct, serialize_field;
    SerializeTupleVariant, serialize_field
);

macro_rules! structs {
    ($($fields:ident),*) => {
        $(impl $fields for Parts<'_, '_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Parts<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        match self.writer.out.get(start) {
            Some(b'"') => {}
            // JSON keys are strings, so numbers and booleans get quotes.
            Some(b'0'..=b'9' | b'-' | b't' | b'f') => {
                self.writer.out.insert(start, b'"');
                self.writer.out.push(b'"');
            }
            _ => return Err(Error::custom("key must be a string")),
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}
