// Package reflector synchronises a store with one kind of object of an API server: it lists,
// watches, and restarts until it is cancelled.
//
// Duties and invariants:
//
//   - Only an API server changes a store. A response that merely decodes as a list, such as a page
//     of a proxy, replaces nothing.
//   - No request waits without a bound. A server that accepts connections and does not respond is
//     abandoned and retried after a pause.
//   - Nothing is logged here: the caller receives the result of each list and of each attempt to
//     open a watch.
//   - No second copy of an object is stored. A complete list replaces the content of the store in
//     one step.
//   - A list is read object by object, in protobuf or JSON. Its size costs no memory beyond the
//     results of the store's transformer, even if a server that answers from its cache does not
//     page it.
package reflector
