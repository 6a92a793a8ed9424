//! Maps and lists as values of templates: ordered, found by name without hashing, printed as by Python.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr, ValueKind};

use crate::error::failed;
use crate::print::print_or_fail;
use crate::render::fail;

/// What Jinja2 finds first when a template reads `map.name`: methods of Python's dict.
const METHODS: [&str; 11] = [
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];

/// A map whose names are strings, in their order.
#[derive(Debug)]
pub(crate) struct Map(pub(crate) Vec<(Value, Value)>);

impl Map {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }
}

impl Object for Map {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    /// The value of an item. Jinja2 would find a method if there is no item of that name, but `in`
    /// would not; this cannot be told apart here, so the render fails.
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let value = self.get(name).cloned();
        if value.is_none() && METHODS.contains(&name) {
            fail();
        }
        value
    }

    /// The value of an attribute; Jinja2 would find a method of that name first.
    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        if METHODS.contains(&name) {
            let message = format!("'.{name}' of a map is a method: use ['{name}']");
            return Some(Value::from(failed(message)));
        }
        self.get(name).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_key_value_enumerator(|map| Box::new(map.0.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.0.is_empty()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_or_fail(f, &Value::from_dyn_object(Arc::clone(self)))
    }
}

/// A list.
#[derive(Debug)]
pub(crate) struct List(pub(crate) Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, _: &str) -> Option<Value> {
        None
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_or_fail(f, &Value::from_dyn_object(Arc::clone(self)))
    }
}

/// The variables of a render: a map of which every name is a variable.
#[derive(Debug)]
pub(crate) struct Variables(pub(crate) Arc<Map>);

impl Object for Variables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }
}

/// What a filter yields: true even without values, without a length, and used up once.
#[derive(Debug)]
pub(crate) struct Generator(Mutex<vec::IntoIter<Value>>);

impl Generator {
    pub(crate) fn value(values: Vec<Value>) -> Value {
        Value::from_object(Self(Mutex::new(values.into_iter())))
    }

    fn rest(&self) -> MutexGuard<'_, vec::IntoIter<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the values of a generator one by one.
struct Yielded(Arc<Generator>);

impl Iterator for Yielded {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        self.0.rest().next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.rest().size_hint()
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Iter(Box::new(Yielded(Arc::clone(self))))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_or_fail(f, &Value::from_dyn_object(Arc::clone(self)))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// Values that are no list: a range, or the view of a map.
#[derive(Debug)]
pub(crate) struct View(pub(crate) Vec<Value>);

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|view| Box::new(view.0.iter().cloned()))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_or_fail(f, &Value::from_dyn_object(Arc::clone(self)))
    }
}

/// Text that is marked as safe: it can be printed, but not combined, because Jinja2 would escape
/// what it is combined with.
#[derive(Debug)]
pub(crate) struct Markup(pub(crate) Arc<str>);

impl Object for Markup {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a value is a list for Python; the engine has kinds of its own for parts of lists.
pub(crate) fn is_list(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq => true,
        ValueKind::Iterable => {
            value.downcast_object_ref::<Generator>().is_none()
                && value.downcast_object_ref::<View>().is_none()
        }
        _ => false,
    }
}

/// Whether a value is a map for Python: not a namespace.
pub(crate) fn is_map(value: &Value) -> bool {
    value.kind() == ValueKind::Map
        && value.as_object().is_some_and(|object| !object.type_name().ends_with("::Namespace"))
}

/// A map with these members, in this order; a name that occurs again replaces the earlier value.
///
/// ```
/// use nanotok_template::{Value, map_value};
///
/// let message = map_value([("role".into(), "user".into())]);
/// assert_eq!(message.to_string(), "{'role': 'user'}");
/// ```
pub fn map_value(members: impl IntoIterator<Item = (Value, Value)>) -> Value {
    let members = members.into_iter();
    let mut kept: Vec<(Value, Value)> = Vec::with_capacity(members.size_hint().0);
    for member in members {
        insert(&mut kept, member.0, member.1);
    }
    Value::from_object(Map(kept))
}

/// A list of these values.
pub fn list_value(values: impl IntoIterator<Item = Value>) -> Value {
    Value::from_object(List(values.into_iter().collect()))
}

/// Sets a member as Python's dict does.
pub(crate) fn insert(members: &mut Vec<(Value, Value)>, key: Value, value: Value) {
    match members.iter_mut().find(|(earlier, _)| earlier.as_str() == key.as_str()) {
        Some(member) => member.1 = value,
        None => members.push((key, value)),
    }
}
