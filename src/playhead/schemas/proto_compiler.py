"""Compiles the text of a .proto file as far as decoding needs it: types, fields, enums.

Used for registries that do not serve compiled descriptors; services and options are ignored.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2

# What has no end goes to the end of the file: each start would otherwise be searched for its end in vain.
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?(?:\*/|\Z)"""
    r"""|("(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|[\w.]+|[^\s\w])""",
    re.DOTALL,
)
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_NUMBERS: Final = "int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64"
_SCALARS: Final = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in (*_NUMBERS.split(), "double", "float", "bool", "string", "bytes")
}
_LABELS: Final = {
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}
_TYPE: Final = "message"  # The keyword of the language.


def compile_proto(text: str) -> Any:
    """Return the file's descriptor; types keep their written names, which the pool resolves."""
    return _Compiler(text).file()


class _Compiler:
    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(text) if found[1]]
        self._at = 0
        self._file = descriptor_pb2.FileDescriptorProto()

    def file(self) -> Any:
        while self._peek():
            word = self._next()
            if word == "syntax":
                self._expect("=")
                self._file.syntax = _unquoted(self._next())
            elif word == "edition":
                # Without its features, absent fields, enums and lists would be those of proto2.
                raise ValueError("editions in .proto files are not supported")
            elif word == "package":
                self._file.package = self._next()
            elif word == "import":
                self._import()
            elif word == _TYPE:
                self._type(self._file.message_type.add())
            elif word == "enum":
                self._enum(self._file.enum_type.add())
            elif word != ";":
                self._skip()
        return self._file

    # --- tokens

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError("the .proto file is incomplete")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise ValueError(f"the .proto file has {found!r}, needed {wanted!r}")

    def _skip(self) -> None:
        """Skip a statement that decoding does not need: to its semicolon, or its whole block."""
        depth = 0
        while True:
            word = self._next()
            if word in "{[(":
                depth += 1
            elif word in "}])":
                depth -= 1
                if word == "}" and depth == 0:
                    return
            elif word == ";" and depth == 0:
                return

    def _body(self) -> Iterator[str]:
        """Yield the first word of each statement between braces."""
        self._expect("{")
        while (word := self._next()) != "}":
            if word != ";":
                yield word

    # --- statements

    def _import(self) -> None:
        is_public = self._peek() == "public"
        if self._peek() in ("public", "weak"):
            self._next()
        if is_public:
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(_unquoted(self._next()))

    def _type(self, made: Any) -> None:
        made.name = self._next()
        for word in self._body():
            if word == _TYPE:
                self._type(made.nested_type.add())
            elif word == "enum":
                self._enum(made.enum_type.add())
            elif word == "oneof":
                self._oneof(made)
            elif word == "map" and self._peek() == "<":
                self._map(made)
            elif word in ("option", "reserved", "extensions", "extend"):
                self._skip()
            else:
                self._field(made, word)
        for field in made.field:
            if field.proto3_optional:
                # As in protoc: each gets an oneof of its own, after the written ones.
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")

    def _field(self, made: Any, word: str) -> Any:
        field = made.field.add(label=_FIELD.LABEL_OPTIONAL)
        if word in _LABELS and self._tokens[self._at + 1 : self._at + 2] != ["="]:
            field.label = _LABELS[word]
            field.proto3_optional = word == "optional" and self._file.syntax == "proto3"
            word = self._next()
        if word == "group":
            raise ValueError("groups in .proto files are not supported")
        self._set_type(field, word)
        field.name = self._next()
        self._expect("=")
        field.number = int(self._next(), 0)
        self._skip()
        return field

    def _set_type(self, field: Any, name: str) -> None:
        if name in _SCALARS:
            field.type = _SCALARS[name]
        else:
            field.type_name = name

    def _oneof(self, made: Any) -> None:
        index = len(made.oneof_decl)
        made.oneof_decl.add(name=self._next())
        for word in self._body():
            if word == "option":
                self._skip()
            else:
                self._field(made, word).oneof_index = index

    def _map(self, made: Any) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = self._field_of_map(made)
        entry = made.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            self._set_type(part, kind)
        field.type_name = entry.name

    def _field_of_map(self, made: Any) -> Any:
        field = made.field.add(label=_FIELD.LABEL_REPEATED, type=_FIELD.TYPE_MESSAGE)
        field.name = self._next()
        self._expect("=")
        field.number = int(self._next(), 0)
        self._skip()
        return field

    def _enum(self, made: Any) -> None:
        made.name = self._next()
        for word in self._body():
            if word in ("option", "reserved") and self._peek() != "=":
                if word == "option" and "allow_alias" in self._tokens[self._at : self._at + 1]:
                    made.options.allow_alias = True
                self._skip()
                continue
            self._expect("=")
            sign = -1 if self._peek() == "-" else 1
            if sign < 0:
                self._next()
            made.value.add(name=word, number=sign * int(self._next(), 0))
            self._skip()


def _entry_name(field: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _unquoted(text: str) -> str:
    return text[1:-1]
